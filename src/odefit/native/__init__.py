"""Native building blocks: cached kernels, calls by address, the stop flag, small dense linear algebra.

Nothing here knows models or problems.  Kernels are free functions on arrays that return an integer
status; they hold no state, release the GIL and may run in any number of threads.
"""
