"""odefit against its peers: CPU time, interleaved in one run, as ratios."""
