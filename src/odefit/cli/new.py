"""``odefit new NAME``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from odefit.cli.output import write_text
from odefit.errors import OdefitError

_PROBLEM = '''\
# A problem for odefit.  Fit it with:   odefit fit {name}.toml
# Replace equations, parameters and data by your own, one after the other; `odefit check {name}.toml` says in
# words what the file holds.

title = "{name}: substrate is taken up, product is formed and decays"

[model]
# x' is the derivative in time, x(0) the initial value.  Other lines are definitions.  Names that are
# neither states nor defined here are parameters, listed below.
equations = """
uptake = vmax*S/(K + S)
S' = -uptake
P' = uptake - kd*P
S(0) = S0
P(0) = 0
"""

[parameters]
# A number is a start value.  A table says more: bounds, a log scale for positive quantities that may be
# orders of magnitude away, fixed = true for what is known.
vmax = {{ start = 1, scale = "log" }}
K = {{ start = 1, scale = "log" }}
kd = {{ start = 0.1, lower = 0 }}
S0 = {{ start = 10, fixed = true }}

[data]
# A column `time` and a column for each measured state or definition.  Empty cells are missing values.
# A column P.sigma would hold standard deviations of P.
file = "{name}.csv"

# [derived]                     # quantities computed from the estimates, with their uncertainty
# half_life = "log(2)/kd"

# [integrator]
# rtol = 1e-7
'''

_DATA = """\
time,S,P
0,9.96,0.01
0.5,9.39,0.73
1,8.48,1.34
2,7.18,2.48
3,5.82,3.43
4,4.71,4.28
6,2.60,5.19
8,1.02,5.49
10,0.24,4.94
13,0.03,3.59
16,0.03,2.53
20,0.02,1.59
"""


def new(
    name: Annotated[str, typer.Argument(help="Name of the problem: letters, digits, '-' and '_'.")] = "problem",
) -> None:
    """Write a commented problem file NAME.toml with data NAME.csv that fits as it is.

    Example: odefit new growth; odefit fit growth.toml
    """
    stem = name.removesuffix(".toml")
    if not re.fullmatch(r"[A-Za-z0-9_-]+", stem):
        raise OdefitError(f"'{name}' is not a name for a problem; use letters, digits, '-' and '_'.")
    files = {Path(f"{stem}.toml"): _PROBLEM.format(name=stem), Path(f"{stem}.csv"): _DATA}
    for path in files:
        if path.exists():
            raise OdefitError(f"'{path}' is there already; nothing was written. Give another name.")
    for path, text in files.items():
        write_text(path, text)
    print(f"wrote {stem}.toml and {stem}.csv; now run: odefit fit {stem}.toml")
