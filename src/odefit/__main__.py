"""``python -m odefit``."""

from odefit.cli import main

main()
