"""The order of the stages (a module may import only what stands to its left), and limits on the size of functions."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from odefit.integrate import CHOICES

ROOT = Path(__file__).parent.parent / "src" / "odefit"
STAGES = [
    "errors", "native", "model", "pde", "problem", "compile", "integrate", "criteria", "solve", "transcribe",
    "statistics", "strategy", "study", "formats", "report", "api", "gallery", "cli", "studio",
]  # fmt: skip
SOLVE_SEES = {"errors", "native", "solve"}
# methods that reach forward: result.summary, result.plot, multistart.plot_*, problem.evaluate, problem.save, and
# problem.sigma, for which native code evaluates expressions
FORWARD = {
    ("strategy/result.py", "report"), ("study/record.py", "report"), ("problem/problem.py", "api"),
    ("problem/problem.py", "formats"), ("problem/problem.py", "transcribe"),
}  # fmt: skip


def stage_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(path: Path) -> set[str]:
    """All odefit modules that `path` imports when it runs, inside functions too."""
    found = set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []  # never executed
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return {name for name in found if name.split(".")[0] == "odefit"}


MODULES = sorted(p for p in ROOT.rglob("*.py") if p.parent != ROOT or p.name in ("errors.py", "api.py"))


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_stage_imports_only_earlier_stages(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert own in STAGES, f"'{own}' is not a stage of the architecture"
    for module in imports_of(path):
        stage = stage_of(module)
        if stage == "" or (path.relative_to(ROOT).as_posix(), stage) in FORWARD:
            continue
        assert stage in STAGES, f"{path.name} imports {module}, which is no stage"
        assert STAGES.index(stage) <= STAGES.index(own), f"{own} must not import {module}"
        if own == "solve":
            assert stage in SOLVE_SEES, f"solve must not import {module}"


def test_no_import_cycles_between_modules():
    def name_of(path: Path) -> str:
        parts = ("odefit", *path.relative_to(ROOT).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    names = {name_of(p): p for p in MODULES}
    graph = {
        name: {m for m in imports_of(path) if m in names and m != name and not _is_package_of(m, name)}
        for name, path in names.items()
    }
    for file, stage in FORWARD:
        forward = graph[name_of(ROOT / file)]
        forward -= {m for m in forward if stage_of(m) == stage}
    done: set[str] = set()

    def visit(name: str, above: tuple[str, ...]) -> None:
        assert name not in above, f"cycle: {' -> '.join((*above[above.index(name) :], name))}"
        if name not in done:
            for other in sorted(graph.get(name, ())):
                visit(other, (*above, name))
            done.add(name)

    for name in sorted(graph):
        visit(name, ())


def _is_package_of(package: str, module: str) -> bool:
    """A module's own package is always being imported already; its siblings are what counts."""
    return module.startswith(f"{package}.")


def test_checker_sees_imports_inside_functions(tmp_path):
    path = tmp_path / "late.py"
    path.write_text("def f():\n    from odefit.cli.app import app\n    return app\n")
    assert imports_of(path) == {"odefit.cli.app", "odefit.cli.app.app"}


LONGEST_FUNCTION, MOST_ARGUMENTS = 90, 12
SOURCES = sorted(ROOT.rglob("*.py"))
INTEGRATORS = {"Integrator", "SingleMethod", "ExplicitRungeKutta", *(type(one).__name__ for one in CHOICES.values())}


def functions_of(text: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]


def too_long(text: str) -> list[str]:
    """Names of functions that do not fit on a screen, docstrings counted."""
    return [f.name for f in functions_of(text) if (f.end_lineno or 0) - f.lineno >= LONGEST_FUNCTION]


def kernels_with_many_arguments(text: str) -> list[str]:
    """Names of kernels, helpers too, that are given more than one can keep apart."""

    def is_kernel(f: ast.FunctionDef) -> bool:
        return any(ast.unparse(d).split("(")[0].split(".")[-1] == "kernel" for d in f.decorator_list)

    return [f.name for f in functions_of(text) if is_kernel(f) and len(f.args.args) > MOST_ARGUMENTS]


def asks_for_integrators(text: str) -> list[str]:
    """Calls of `isinstance` with the class of an integrator: what it can do is for its attributes to say."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    asking = [call for call in calls if ast.unparse(call.func) == "isinstance"]
    return [
        ast.unparse(call)
        for call in asking
        if INTEGRATORS & {n.id if isinstance(n, ast.Name) else getattr(n, "attr", "") for n in ast.walk(call.args[1])}
    ]


def test_functions_fit_on_a_screen():
    assert {p.relative_to(ROOT).as_posix(): names for p in SOURCES if (names := too_long(p.read_text()))} == {}


def test_kernels_have_few_arguments():
    found = {p.relative_to(ROOT).as_posix(): kernels_with_many_arguments(p.read_text()) for p in SOURCES}
    assert {file: names for file, names in found.items() if names} == {}


def test_nobody_asks_which_integrator_it_is():
    others = [p for p in SOURCES if p.relative_to(ROOT).parts[0] != "integrate"]
    assert {p.name: found for p in others if (found := asks_for_integrators(p.read_text()))} == {}


def test_nobody_takes_the_first_period_for_the_only_one():
    assert "periods" in (ROOT / "problem" / "experiments.py").read_text()
    assert [p.name for p in SOURCES if "periods[" in p.read_text()] == []


def test_checkers_see_what_they_look_for():
    long = "def f():\n" + "    x = 1\n" * LONGEST_FUNCTION
    assert too_long(long) == ["f"]
    assert too_long(long.removesuffix("    x = 1\n")) == []
    arguments = ", ".join(f"a{i}" for i in range(MOST_ARGUMENTS + 1))
    for mark in ("@kernel", "@kernel(inline=True)", "@native.kernel\n@named('f')"):
        assert kernels_with_many_arguments(f"{mark}\ndef f({arguments}):\n    return a0\n") == ["f"]
    assert kernels_with_many_arguments(f"def f({arguments}):\n    return a0\n") == []
    assert asks_for_integrators("isinstance(one, (integrate.Ddm, int))") == ["isinstance(one, (integrate.Ddm, int))"]
    assert asks_for_integrators("isinstance(one, int)") == []
