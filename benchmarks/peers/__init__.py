"""Complete warm fits of odefit and its peers: the same problems, starts, data and tolerances."""
