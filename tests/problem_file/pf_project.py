"""A folder with a problem that works, in which tests change one thing."""

from __future__ import annotations

from pathlib import Path

from odefit.formats import load_problem
from odefit.problem import Problem

EQUATIONS = '''[model]
equations = """
A' = -k*A
B' = k*A - k2*B
A(0) = A0
B(0) = 0
total = A + B
"""
'''
PARAMETERS = """[parameters]
k = 1
k2 = 0.5
A0 = 1
"""
DATA = """[data]
file = "d.csv"
"""
CSV = "time,A,B\n0,1,0\n1,0.4,0.5\n2,0.1,0.6\n"


class Project:
    """Write files into a folder and load the problem `p.toml`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, **files: str | bytes) -> Project:
        """Write files; `p_toml="..."` is p.toml."""
        for name, content in files.items():
            self.put(name.replace("_", "."), content)
        return self

    def put(self, name: str, content: str | bytes) -> Project:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def load(self, toml: str | bytes | None = None, csv: str | bytes | None = None, **files: str | bytes) -> Problem:
        """Load a problem; what is not given is the problem that works."""
        self.put("p.toml", EQUATIONS + PARAMETERS + DATA if toml is None else toml)
        self.put("d.csv", CSV if csv is None else csv)
        self.write(**files)
        return load_problem(self.folder / "p.toml")
