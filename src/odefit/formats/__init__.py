"""Files: problems in and out, results out."""

from odefit.formats.data_frame import measurements_from_frame
from odefit.formats.problem_file import load_problem
from odefit.formats.problem_saving import save_problem
from odefit.formats.result_file import write_result

__all__ = ["load_problem", "measurements_from_frame", "save_problem", "write_result"]
