"""Files: problems in, results out."""

from odefit.formats.problem_file import load_problem
from odefit.formats.result_file import write_result

__all__ = ["load_problem", "write_result"]
