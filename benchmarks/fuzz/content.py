"""Changes of what is said: files that are still TOML and a table, with other values, formulas and keys in them.

Most changes of text end in front of the parser; these mostly reach the model, and many of them the fit.
"""

from __future__ import annotations

import copy
import random
import re
import tomllib
from collections.abc import Callable
from typing import Any

from benchmarks.fuzz.sources import Files
from odefit.formats.toml_writing import toml_section, toml_value

_NUMBERS = (
    0, 1, -1, 2, 0.5, 0.0, -0.0, 1e-3, 1e3, -1e3, 1e-15, 1e15, 1e-30, 1e30, 1e-160, 1e160, 1e-308, 1e308, -1e308,
    5e-324, float("inf"), float("-inf"), float("nan"), 2**62, -(2**63), 10**400,
)  # fmt: skip
_UNARY = (
    "exp", "log", "log10", "log2", "sqrt", "abs", "sign", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "floor", "ceil", "erf", "-", "not",
)  # fmt: skip
_BINARY = ("+", "-", "*", "/", "^", "**", "<", "<=", ">", ">=", "==", "!=", " and ", " or ")
_PAIRED = ("min", "max", "atan2")
_CONSTANTS = ("0", "1", "2", "-1", "0.5", "10", "1e-9", "1e9", "1e200", "1e-200", "pi", "inf")
_SETTINGS: dict[str, dict[str, tuple[Any, ...]]] = {
    "integrator": {
        "method": ("auto", "dopri5", "dop853", "rk32", "ddm", "bdf3", "euler"),
        "rtol": (1e-2, 1e-4, 1e-10, 1e-14, 0.9, 1e-300, 0, 1),
        "atol": ("auto", 1e-12, 1, 1e-300, 1e300, 0, {"A": 1e-6}, {}),
        "max_step": (0.01, 1, 1e-9, 1e300, 5e-324, 0, float("inf")),
        "max_steps": (1, 10, 0, 10**12),
    },
    "fit": {
        "method": ("single", "incremental", "multiple", "auto"),
        "solver": ("trust", "trust-region", "newton", "levenberg"),
        "criterion": ("least-squares", "likelihood", "determinant"),
        "freeze": ("omega", "readapt", "never", "always"),
        "tol": (1e-1, 1e-12, 0.99, 1e-300, 0),
        "max_iterations": (1, 0, 10**12),
        "start": ("auto", "given", "never"),
        "starts": (2, 3, 10**6, 0),
        "seed": (0, 1, -1, 2**62),
        "horizons": ([], [1.0], [1.0, 2.0, 4.0], [2.0, 1.0], [1e-300, 1e300], [0.0, -1.0]),
        "confidence": (0.5, 1e-9, 1 - 1e-12, 2),
        "relaxation": (1e-9, 1e9, 0),
    },
}
_SCALES = ("linear", "log", "log10", "logit", "square")
_PRIORS = ("normal", "lognormal", "laplace", "uniform", "cauchy")
_SIGMAS: tuple[Any, ...] = (
    "5 %",
    "0 %",
    "-5 %",
    "1e300 %",
    "estimate",
    "A",
    "0.1 + 0.1*A",
    "0.1*K",
    0.1,
    0,
    -1,
    1e300,
    1e-300,
)
_HEADS = ("time", "t", "weight", "sigma", "experiment", "observable", "value", "lab", "A", "y.sigma", "A.weight", "")
_CELLS = (
    "", "0", "-1", "1e-300", "1e300", "1e308", "inf", "-inf", "nan", "1e-30", "1e30", "b1", "b2", "5e-324", "0.5", "3",
)  # fmt: skip


def changed_content(files: Files, draw: random.Random) -> Files:
    """Return files of which one to three things that they say were changed."""
    tree, csv = tomllib.loads(files.toml.decode()), files.csv.decode()
    for _ in range(draw.choice((1, 1, 1, 2, 2, 3))):
        if draw.random() < 0.3:
            csv = _changed_table(csv, draw)
        else:
            draw.choice(_CHANGES)(tree, draw)
    return Files(_written(tree).encode(), csv.encode())


def _written(tree: dict[str, Any]) -> str:
    top = [f"{key} = {toml_value(value)}\n" for key, value in tree.items() if not isinstance(value, dict)]
    return "".join([*top, *(toml_section(key, value) for key, value in tree.items() if isinstance(value, dict))])


# ------------------------------------------------------------------------------------------------- in the problem file


def _names(tree: dict[str, Any]) -> list[str]:
    """Return the names that formulas may use, found as a person would: words of the equations."""
    words = re.findall(r"[A-Za-z_]\w*", str(tree["model"]["equations"]))
    known = set(_UNARY) | {"if", "and", "or", "max", "min"}
    return sorted({word for word in words if word not in known} | set(tree.get("parameters", {})))


def formula(names: list[str], draw: random.Random, depth: int = 2) -> str:
    """Return an expression that the language can read; whether it makes sense is another matter."""
    kind = draw.randrange(7) if depth else draw.randrange(2)
    if kind == 0:
        return draw.choice(_CONSTANTS)
    if kind == 1:
        return draw.choice([*names, "t"])

    def part() -> str:
        return formula(names, draw, depth - 1)

    if kind == 2:
        return f"({part()}{draw.choice(_BINARY)}{part()})"
    if kind == 3:
        return f"{draw.choice(_UNARY)}({part()})"
    if kind == 4:
        return f"{draw.choice(_PAIRED)}({part()}, {part()})"
    if kind == 5:
        return f"if({draw.choice([*names, 't'])} {draw.choice(('<', '>='))} {part()}, {part()}, {part()})"
    return f"({part()}){draw.choice(_BINARY)}({part()})"


def _number(old: Any, draw: random.Random) -> Any:
    if draw.random() < 0.5 and isinstance(old, int | float) and abs(old) < 1e300:
        return old * 10.0 ** draw.randint(-18, 18)
    return draw.choice(_NUMBERS)


def _change_number(tree: dict[str, Any], draw: random.Random) -> None:
    """Give a number another value."""
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in entries:
            if isinstance(one, dict | list):
                walk(one)
            elif isinstance(one, int | float) and not isinstance(one, bool):
                places.append((value, key))

    walk(tree)
    if places:
        owner, key = draw.choice(places)
        owner[key] = _number(owner[key], draw)


def _change_setting(tree: dict[str, Any], draw: random.Random) -> None:
    name = draw.choice(list(_SETTINGS))
    key = draw.choice(list(_SETTINGS[name]))
    tree.setdefault(name, {})[key] = copy.deepcopy(draw.choice(_SETTINGS[name][key]))


def _change_parameter(tree: dict[str, Any], draw: random.Random) -> None:
    entries = tree["parameters"]
    name = draw.choice([key for key in entries if key != "file"] or ["k"])
    entry = entries.get(name, 1.0)
    entry = entry if isinstance(entry, dict) else {"start": entry}
    kind = draw.randrange(8)
    if kind < 3:
        key = ("start", "lower", "upper")[kind]
        entry[key] = _number(entry.get(key, 1.0), draw)
    elif kind == 3:
        entry["scale"] = draw.choice(_SCALES)
    elif kind == 4:
        one, other = draw.choice(_CONSTANTS), draw.choice(_CONSTANTS)
        entry["prior"] = f"{draw.choice(_PRIORS)}({one}, {other})"
    elif kind == 5:
        entry["per"] = draw.choice(("experiment", "lab", "time", "nothing"))
    elif kind == 6:
        entry = draw.choice(({"expression": formula(_names(tree), draw)}, {**entry, "start": "auto"}))
    else:
        entry["fixed"] = draw.random() < 0.8
    entries[name] = entry


def _change_equation(tree: dict[str, Any], draw: random.Random) -> None:
    """Change a name, a number, an operator or a whole right side; add or take away a line."""
    names = _names(tree)
    lines = [line for line in tree["model"]["equations"].split("\n") if line.strip()]
    if not lines:
        return
    at = draw.randrange(len(lines))
    left, equals, right = lines[at].partition("=")
    kind = draw.randrange(6)
    if kind == 0:
        right = " " + formula(names, draw, 3)
    elif kind == 1:
        right = _exchanged(right, r"[A-Za-z_]\w*(?!\w*\()", [*names, "t"], draw)
    elif kind == 2:
        right = _exchanged(right, r"\d+\.?\d*", list(_CONSTANTS), draw)
    elif kind == 3:
        right = _exchanged(right, r"[-+*/^]", list(_BINARY), draw)
    elif kind == 4:
        right = f" {formula(names, draw)}*({right})" if right.strip() else right
    lines[at] = left + equals + right
    if kind == 5:
        new = draw.choice(("", f"extra = {formula(names, draw)}", f"z' = {formula(names, draw)}\nz(0) = 1"))
        lines[at : at + (not new)] = [new] if new else []
    tree["model"]["equations"] = "\n" + "\n".join(lines) + "\n"


def _exchanged(text: str, pattern: str, others: list[str], draw: random.Random) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = draw.choice(found)
    return text[: one.start()] + draw.choice(others) + text[one.end() :]


def _change_experiment(tree: dict[str, Any], draw: random.Random) -> None:
    entry = tree.setdefault("experiments", {}).setdefault(draw.choice(("b1", "b2", "main", "new")), {})
    if not isinstance(entry, dict):
        return
    names = _names(tree)
    key = draw.choice((draw.choice(names), f"{draw.choice(names)}(0)", "until", "use"))
    value: Any = _number(1.0, draw)
    if key == "use":
        value = draw.choice(("fit", "validate", "predict", "never"))
    elif key != "until" and draw.random() < 0.5:
        value = formula(names, draw)
    entry[key] = value


def _change_noise(tree: dict[str, Any], draw: random.Random) -> None:
    place = draw.choice(("default", *_names(tree)))
    sigma = draw.choice((*_SIGMAS, formula(_names(tree), draw)))
    tree.setdefault("noise", {})[place] = draw.choice((sigma, {"sigma": sigma}))


def _change_formulas(tree: dict[str, Any], draw: random.Random) -> None:
    """Add a derived quantity or a rule."""
    text = formula(_names(tree), draw)
    if draw.random() < 0.5:
        tree.setdefault("derived", {})[draw.choice(("half", "extra"))] = text
    else:
        rule = f"{text} ~ {draw.choice(_PRIORS)}({draw.choice(_CONSTANTS)}, {draw.choice(_CONSTANTS)})"
        tree.setdefault("constraints", {})["rules"] = [rule]


def _change_start(tree: dict[str, Any], draw: random.Random) -> None:
    tree["model"]["t0"] = -abs(_number(1.0, draw)) if draw.random() < 0.8 else _number(1.0, draw)


_CHANGES: tuple[Callable[[dict[str, Any], random.Random], None], ...] = (
    _change_number, _change_number, _change_setting, _change_setting, _change_setting, _change_parameter,
    _change_parameter, _change_parameter, _change_equation, _change_equation, _change_equation, _change_experiment,
    _change_noise, _change_formulas, _change_start,
)  # fmt: skip


# ------------------------------------------------------------------------------------------------- in the data


def _changed_table(csv: str, draw: random.Random) -> str:
    rows = [line.split(",") for line in csv.split("\n") if line]
    if len(rows) < 2:
        return csv
    at, column = draw.randrange(1, len(rows)), draw.randrange(len(rows[0]))
    kind = draw.randrange(8)
    if kind < 4:
        _change_cell(rows, at, column, draw)
    elif kind == 4:  # all cells of a column
        for row in rows[1:]:
            if column < len(row):
                row[column] = _cell(row[column], random.Random(at))
    elif kind == 5:
        rows[0][column] = draw.choice(_HEADS)
    elif kind == 6:  # a column more
        head, cell = draw.choice(_HEADS), draw.choice(_CELLS)
        rows = [[*row, cell if i else head] for i, row in enumerate(rows)]
    else:  # rows doubled, or taken away
        rows[at : at + draw.choice((1, 1, len(rows)))] = draw.choice(([], [rows[at]] * 2))
    return "\n".join(map(",".join, rows)) + "\n"


def _change_cell(rows: list[list[str]], at: int, column: int, draw: random.Random) -> None:
    if column < len(rows[at]):
        rows[at][column] = _cell(rows[at][column], draw)


def _cell(old: str, draw: random.Random) -> str:
    if draw.random() < 0.5:
        return draw.choice(_CELLS)
    try:
        return f"{float(old) * 10.0 ** draw.randint(-18, 18):g}"
    except ValueError:
        return draw.choice(_CELLS)
