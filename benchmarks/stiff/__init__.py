"""Work and precision on stiff problems with sensitivities; see `benchmarks.stiff.__main__`."""
