"""The cache of compiled kernels: never stale, shared between processes, not required.

A small package called odefit, made of the real `odefit.native` and two files with kernels, is run in
processes of its own: numba compiles it in a fraction of a second.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import odefit
from odefit.native.kernel import kernel_folder, source_digest
from odefit.native.places import package_root

SOURCE = Path(odefit.__file__).parent

CALLEE = """
from odefit.native.kernel import kernel

@kernel(inline=True)
def _inlined(x):
    return 2.0 * x

@kernel
def called(x):
    return 3.0 * x
"""
NUMBERS = """
FACTOR = 10.0
"""
ENTRY = """
from odefit.native.kernel import kernel
from odefit.stage.callee import _inlined, called
from odefit.stage.numbers import FACTOR

@kernel
def combined(x):
    return _inlined(x) + FACTOR * called(x)
"""
FACTORY = """
from odefit.native.kernel import kernel, named
from odefit.stage.callee import _inlined, called

def applied_twice(name, function):
    @kernel
    @named(name)
    def apply(x):
        return function(function(x))

    return apply

fourfold, ninefold = applied_twice("fourfold", _inlined), applied_twice("ninefold", called)

def combined(x):
    return fourfold(x) + 10.0 * ninefold(x)
"""
SCRIPT = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
from odefit.stage.entry import combined
print(combined(1.0))
"""


@dataclass
class Package:
    root: Path
    cache: Path

    def write(self, name: str, text: str) -> None:
        (self.root / "odefit" / "stage" / name).write_text(text)

    def change(self, name: str, old: str, new: str) -> None:
        """Edit a file in place; its size and time stamp stay, as they may on a coarse clock."""
        path = self.root / "odefit" / name
        text, stamp = path.read_text(), path.stat().st_mtime_ns
        assert text.count(old) == 1
        assert len(old) == len(new)
        path.write_text(text.replace(old, new))
        os.utime(path, ns=(stamp, stamp))

    def run(self, script: str = SCRIPT) -> tuple[float, str]:
        """Return the kernel's result and what was logged."""
        environment = os.environ | {
            "PYTHONPATH": str(self.root),
            "ODEFIT_CACHE_DIR": str(self.cache),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, cwd=self.root, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return float(done.stdout), done.stderr


@pytest.fixture(scope="module")
def first_run(tmp_path_factory) -> tuple[Package, float, str]:
    """A package whose kernels were compiled once, their result and what was logged."""
    folder = tmp_path_factory.mktemp("first_run")
    root = folder / "place"
    shutil.copytree(SOURCE / "native", root / "odefit" / "native", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SOURCE / "errors.py", root / "odefit" / "errors.py")
    (root / "odefit" / "stage").mkdir()
    made = Package(root, folder / "cache")
    for path in (root / "odefit", root / "odefit" / "stage"):
        (path / "__init__.py").write_text("")
    for name, text in (
        ("callee.py", CALLEE),
        ("numbers.py", NUMBERS),
        ("entry.py", ENTRY),
        ("words.py", "TEXT = 'a'\n"),
    ):
        made.write(name, text)
    return made, *made.run()


@pytest.fixture
def package(first_run, tmp_path) -> Package:
    """A copy of package and cache, after the first run."""
    made = first_run[0]
    shutil.copytree(made.root, tmp_path / "place")
    shutil.copytree(made.cache, tmp_path / "cache")
    return Package(tmp_path / "place", tmp_path / "cache")


def test_first_process_compiles(first_run):
    _, value, log = first_run
    assert value == 32.0
    assert "compiling kernel combined (once on this machine)" in log
    assert "_inlined" not in log


def test_second_process_does_not_compile(package):
    assert package.run() == (32.0, "")


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("stage/callee.py", "2.0 * x", "5.0 * x", 35.0),
        ("stage/callee.py", "3.0 * x", "4.0 * x", 42.0),
        ("stage/entry.py", "FACTOR * called", "0.5000 * called", 3.5),
        ("stage/numbers.py", "FACTOR = 10.0", "FACTOR = 70.0", 212.0),
    ],
    ids=["inlined-callee", "called-callee", "entry", "constant-in-a-file-without-kernels"],
)
def test_changed_source_is_compiled_again(package, file, old, new, expected):
    package.change(file, old, new)
    assert package.run()[0] == expected


def test_kernels_made_around_other_kernels(package):
    """Two kernels of one source are told apart, and found again by another process."""
    package.write("entry.py", FACTORY)
    value, log = package.run()
    assert value == 94.0
    assert "compiling kernel fourfold" in log
    assert "compiling kernel ninefold" in log
    assert package.run() == (94.0, "")
    package.change("stage/callee.py", "3.0 * x", "4.0 * x")
    assert package.run()[0] == 164.0


PAIRS = """
from odefit.native.kernel import kernel

@kernel
def combined(pair):
    return pair[0] + 10.0 * pair[1]
"""
OWN_PAIR = """
from typing import NamedTuple

class Pair(NamedTuple):
    a: float
    b: float
"""


def test_types_of_a_module_that_others_do_not_have(package):
    package.write("entry.py", PAIRS)
    own = package.root / "own.py"
    own.write_text(OWN_PAIR)
    with_own = SCRIPT.replace("combined(1.0)", "combined(__import__('own').Pair(1.0, 2.0))")
    assert package.run(with_own)[0] == 21.0
    own.rename(own.with_suffix(".aside"))
    value, log = package.run(SCRIPT.replace("combined(1.0)", "combined((1.0, 3.0))"))
    assert value == 31.0
    assert "WARNING" not in log
    own.with_suffix(".aside").rename(own)
    assert package.run(with_own) == (21.0, "")


def test_change_elsewhere_does_not_compile(package):
    package.change("stage/words.py", "'a'", "'b'")
    assert package.run() == (32.0, "")


def a_file_instead(package: Package) -> None:
    shutil.rmtree(package.cache)
    package.cache.write_text("not a folder")


def damaged(suffix: str):
    def damage(package: Package) -> None:
        found = list(package.cache.rglob(f"*.{suffix}"))
        assert found
        for path in found:
            path.write_bytes(path.read_bytes()[:40])

    damage.__name__ = f"truncated_{suffix}"
    return damage


@pytest.mark.parametrize("obstacle", [a_file_instead, damaged("nbi"), damaged("nbc")], ids=lambda o: o.__name__)
def test_cache_that_cannot_be_used_costs_time_only(package, obstacle):
    obstacle(package)
    value, log = package.run()
    assert value == 32.0
    assert "WARNING" in log


# ---------------------------------------------------------------------------------------------------- digest


def tree(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


WITH_KERNEL = "@kernel\ndef f(x):\n    return x\n"


@pytest.mark.parametrize(
    ("files", "same"),
    [
        ({"a": WITH_KERNEL}, True),
        ({"a": WITH_KERNEL, "plain": "x = 1\n"}, True),
        ({"a": WITH_KERNEL, "deep__folder__plain": "x = 1\n"}, True),
        ({"a": WITH_KERNEL + "# other\n"}, False),
        ({"b": WITH_KERNEL}, False),
        ({"a": WITH_KERNEL, "b": WITH_KERNEL}, False),
        ({"a": WITH_KERNEL, "deep__folder__b": WITH_KERNEL}, False),
        ({}, False),
    ],
)
def test_source_digest(files, same, tmp_path):
    reference = source_digest(tree(tmp_path / "one", a=WITH_KERNEL))
    (tmp_path / "two").mkdir()
    assert (source_digest(tree(tmp_path / "two", **files)) == reference) is same


def test_kernel_folder_is_named_after_the_sources():
    assert kernel_folder().name == f"kernels-{source_digest(package_root())}"


def names_in_kernels(tree: ast.Module) -> set[str]:
    """All names that the bodies of the kernels of a file use."""
    kernels = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and is_kernel(node))
    return {name.id for one in kernels for name in ast.walk(one) if isinstance(name, ast.Name)}


def is_kernel(node: ast.FunctionDef) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "kernel" for one in node.decorator_list)


def taken_from(path: Path) -> set[Path]:
    """Files of odefit whose names (constants, callees, intrinsics) become part of the kernels of `path`."""
    module = ast.parse(path.read_text())
    used = names_in_kernels(module)
    found = set()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("odefit."):
            file = SOURCE.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            if file.exists() and any((alias.asname or alias.name) in used - {"kernel"} for alias in node.names):
                found.add(file)
    return found


def has_tableau(tree: ast.Module) -> bool:
    """Whether a file holds coefficients from which kernels are made."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Name) and called.id == "Tableau" for called in calls)


TABLEAU_FILES = sorted(path for path in SOURCE.rglob("*.py") if has_tableau(ast.parse(path.read_text())))
KERNEL_FILES = sorted(path for path in SOURCE.rglob("*.py") if names_in_kernels(ast.parse(path.read_text())))
GENERATOR = [SOURCE / "integrate" / name for name in ("schemes.py", "tableau.py")]
INGREDIENTS = sorted(
    {*KERNEL_FILES, *TABLEAU_FILES, *GENERATOR, *(file for path in KERNEL_FILES for file in taken_from(path))}
)


@pytest.fixture(scope="module")
def copied_source(tmp_path_factory) -> Path:
    copy = tmp_path_factory.mktemp("source") / "odefit"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def test_methods_are_files_with_coefficients():
    assert {path.stem for path in TABLEAU_FILES} == {"rk32", "dopri5", "dop853"}


@pytest.mark.parametrize("file", INGREDIENTS, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_digest_covers_everything_that_kernels_are_made_of(file, copied_source):
    before = source_digest(copied_source)
    changed = copied_source / file.relative_to(SOURCE)
    text = changed.read_text()
    changed.write_text(text + "\n# changed\n")
    after = source_digest(copied_source)
    changed.write_text(text)
    assert after != before
    assert source_digest(copied_source) == before
