"""The cache of compiled functions on disk: hits, keys, damaged files, processes at the same time."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import casadi as ca
import numpy as np
import pytest
from casadi import SX

from odefit.compile import functions, store
from odefit.compile.functions import FunctionLibrary, SymbolicFunction
from odefit.native.cache_folder import read_cached

AT = [0.3, 1.7]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(folder))
    return folder


@pytest.fixture(autouse=True)
def fresh_surroundings():
    """Forget what was remembered of versions and sources, before and after."""
    store.surroundings.cache_clear()
    yield
    store.surroundings.cache_clear()


@pytest.fixture
def builds(monkeypatch) -> list[int]:
    """The sizes of the objects that are really compiled."""
    made: list[int] = []

    def counting(text: str, size: int) -> bytes:
        made.append(size)
        return original(text, size)

    original = functions.build_object
    monkeypatch.setattr(functions, "build_object", counting)
    return made


def symbolic(factor: float = 2.0, name: str = "f", by: tuple[str, ...] = ("x",)) -> SymbolicFunction:
    x = SX.sym("x", 2)
    out = ca.vertcat(ca.exp(x[0]) * x[1], factor * x[1] ** 2)
    return SymbolicFunction(name, SX.sym("t"), (("x", x),), by, out)


def library(**options) -> FunctionLibrary:
    return FunctionLibrary("two functions", [symbolic(**options)])


def check(made: FunctionLibrary, call, factor: float = 2.0) -> None:
    a, b = AT
    native = made["f"]
    np.testing.assert_allclose(call(native.value, 2, AT), [np.exp(a) * b, factor * b**2], rtol=1e-14)
    assert native.row_ptr.tolist() == [0, 2, 3]
    assert native.col.tolist() == [0, 1, 1]
    jacobian = call(native.jacobian, 3, AT)
    np.testing.assert_allclose(jacobian, [np.exp(a) * b, np.exp(a), 2 * factor * b], rtol=1e-14)
    second = call(native.second, 2, AT, [1.0, 2.0], [3.0, 5.0])
    np.testing.assert_allclose(second, [np.exp(a) * (3 * b + 11), 2 * factor * 10], rtol=1e-14)


def files(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file())


def test_second_build_is_a_hit(cache, call, builds, caplog):
    caplog.set_level(logging.INFO, logger="odefit.compile")
    check(library(), call)
    assert len(builds) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "compiling two functions (first derivatives)",
        "compiling two functions (second derivatives)",
    ]
    caplog.clear()
    check(library(), call)
    assert len(builds) == 2
    assert not caplog.records
    assert len(files(cache)) == 2
    assert all(path.parent == cache / "models" and path.suffix == ".obj" for path in files(cache))


def test_second_derivatives_are_made_on_demand(cache, builds):
    native = library()["f"]
    assert len(builds) == 1
    assert len(files(cache)) == 1
    assert native.second == native.second
    assert len(builds) == 2
    assert len(files(cache)) == 2


def test_code_lives_as_long_as_the_function(call):
    native = library()["f"]  # nothing else holds the library
    np.testing.assert_allclose(call(native.value, 2, AT)[1], 2 * AT[1] ** 2)


# ---------------------------------------------------------------------------------------------------- keys


def names_of(**options) -> set[str]:
    """Files that a library makes in an empty cache."""
    root = Path(os.environ["ODEFIT_CACHE_DIR"])
    shutil.rmtree(root, ignore_errors=True)
    native = library(**options)["f"]
    assert native.second
    return {path.name for path in files(root)}


@pytest.mark.parametrize("options", [{"factor": 3.0}, {"factor": np.nextafter(2.0, 3.0)}, {"by": ()}])
def test_changed_model_has_another_key(options):
    assert not names_of() & names_of(**options)


def test_changed_name_has_another_key(cache):
    assert library()["f"].value
    before = set(files(cache))
    assert FunctionLibrary("two functions", [symbolic(name="g")])["g"].value
    assert len(set(files(cache)) - before) == 1


def test_same_model_has_the_same_key():
    assert names_of() == names_of()


def test_title_is_not_part_of_the_key(builds):
    for title in ("one", "two"):
        FunctionLibrary(title, [symbolic()])
    assert len(builds) == 1


def changed_version(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "version", lambda name: "0.0.0.other")


def changed_cpu(monkeypatch, tmp_path):
    triple, _, features = store.host()
    monkeypatch.setattr(store, "host", lambda: (triple, "another-cpu", features))


def changed_features(monkeypatch, tmp_path):
    triple, cpu, features = store.host()
    monkeypatch.setattr(store, "host", lambda: (triple, cpu, f"{features},+more"))


def changed_triple(monkeypatch, tmp_path):
    _, cpu, features = store.host()
    monkeypatch.setattr(store, "host", lambda: ("another-unknown-triple", cpu, features))


def changed_casadi(monkeypatch, tmp_path):
    monkeypatch.setattr(store.ca.CasadiMeta, "version", lambda: "0.0.0")


def changed_llvmlite(monkeypatch, tmp_path):
    monkeypatch.setattr(store.llvmlite, "__version__", "0.0.0")


def changed_source(file: str):
    def change(monkeypatch, tmp_path):
        copy = tmp_path / "compile"
        shutil.copytree(Path(store.__file__).parent, copy)
        with (copy / file).open("a") as stream:
            stream.write("\n# another way to generate code\n")
        monkeypatch.setattr(store, "__file__", str(copy / "store.py"))

    change.__name__ = f"changed_{file}"
    return change


CHANGES = [
    changed_version,
    changed_cpu,
    changed_features,
    changed_triple,
    changed_casadi,
    changed_llvmlite,
    *(changed_source(file) for file in ("tape.py", "functions.py", "machine.py", "store.py", "conditions.py")),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_changed_surroundings_have_another_key(change, monkeypatch, tmp_path, builds):
    before = store.key("first", "content")
    library()
    change(monkeypatch, tmp_path)
    store.surroundings.cache_clear()
    assert store.key("first", "content") != before
    library()
    assert len(builds) == 2


def test_copied_sources_have_the_same_key(monkeypatch, tmp_path):
    """The place of the package is not part of the key: an unchanged copy reuses the cache."""
    before = store.key("first", "content")
    shutil.copytree(Path(store.__file__).parent, tmp_path / "compile")
    monkeypatch.setattr(store, "__file__", str(tmp_path / "compile" / "store.py"))
    store.surroundings.cache_clear()
    assert store.key("first", "content") == before


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("first", "a"), ("second", "a")),
        (("first", "a", "b"), ("first", "b", "a")),
        (("first", "ab"), ("first", "a", "b")),
        (("first", "a", ""), ("first", "a")),
    ],
)
def test_keys_tell_contents_apart(one, other):
    assert store.key(*one) != store.key(*other)


# ---------------------------------------------------------------------------------------------- damaged files


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


def without_last_byte(content: bytes) -> bytes:
    return content[:-1]


def header_only(content: bytes) -> bytes:
    return content[:20]


def empty(content: bytes) -> bytes:
    return b""


def garbage(content: bytes) -> bytes:
    return np.random.default_rng(1).bytes(5000)


def longer(content: bytes) -> bytes:
    return content + b"\0"


def text(content: bytes) -> bytes:
    return "not an object file äöü\n".encode() * 100


def another_format(content: bytes) -> bytes:
    return content.replace(b"odefit-object-1", b"odefit-object-0", 1)


def flipped(place: float):
    def damage(content: bytes) -> bytes:
        position = int(place * (len(content) - 1))
        return content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]

    damage.__name__ = f"bit_flipped_at_{place:.0%}"
    return damage


DAMAGES = [truncated, without_last_byte, header_only, empty, garbage, longer, text, another_format]
DAMAGES += [flipped(place) for place in (0.0, 0.005, 0.02, 0.05, 0.3, 0.7, 1.0)]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_file_is_compiled_again(damage, cache, call, builds, caplog):
    check(library(), call)
    intact = {path: path.read_bytes() for path in files(cache)}
    for path, content in intact.items():
        path.write_bytes(damage(content))
        assert path.read_bytes() != content
    check(library(), call)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert all("was damaged; it is compiled again" in warning for warning in warnings)
    assert len(builds) == 4
    assert {path: path.read_bytes() for path in intact} == intact
    caplog.clear()
    check(library(), call)  # the file is sound again
    assert len(builds) == 4
    assert not caplog.records
    assert set(files(cache)) == set(intact)


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_pack_and_unpack(size):
    stored = store.StoredObject(np.random.default_rng(size).bytes(size), {"f": {"row_ptr": [0, 1], "col": [0]}})
    assert store.unpack(store.pack(stored)) == stored


def test_absent_file():
    assert store.load(store.key("first", "never made")) is None


# ------------------------------------------------------------------------------------------- no place to write


def a_file_instead(cache: Path) -> None:
    cache.write_text("not a folder")


def a_file_in_between(cache: Path) -> None:
    cache.mkdir()
    (cache / "models").write_text("not a folder")


@pytest.mark.parametrize("obstacle", [a_file_instead, a_file_in_between])
def test_cache_that_cannot_be_made(obstacle, cache, tmp_path, call, builds, caplog, monkeypatch):
    """A folder among the temporary files takes its part, which is said once."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    obstacle(cache)
    for _ in range(2):
        check(library(), call)
    assert len(builds) == 2
    assert len(files(tmp_path / "temporary")) == 2
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert f"the cache folder '{cache}' is not used" in warnings[0]


def test_folders_in_the_places_of_files(cache, call, builds, caplog):
    names = names_of()
    for name in names:
        (cache / "models" / name).unlink()
        (cache / "models" / name / "occupied").mkdir(parents=True)
    builds.clear()
    check(library(), call)
    assert len(builds) == 2
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [("is no ordinary file" in one, "could not be cached" in one) for one in warnings] == [
        (True, False), (False, True), (True, False), (False, True),
    ]  # fmt: skip
    assert not list(cache.rglob(".*"))


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), OSError(28, "No space left on device")])
def test_error_while_writing(error, call, builds, caplog, monkeypatch):
    def refuse(path, mark, body):
        raise error

    monkeypatch.setattr(store, "write_cached", refuse)
    check(library(), call)
    check(library(), call)
    assert len(builds) == 4
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert all(str(error) in record.getMessage() for record in warnings)
    assert len(warnings) == 4


# ------------------------------------------------------------------------------------ processes at the same time


SCRIPT = """
import ctypes, pathlib, sys, time
import numpy as np
from odefit.compile.functions import FunctionLibrary, SymbolicFunction
import casadi as ca

x = ca.SX.sym("x", 40)
out = ca.vertcat(*[ca.sin(x[i]) * ca.exp(x[(i + 1) % 40]) for i in range(40)])
function = SymbolicFunction("f", ca.SX.sym("t"), (("x", x),), ("x",), out)

pathlib.Path(sys.argv[1]).touch()
go = pathlib.Path(sys.argv[2])
for _ in range(6000):
    if go.exists():
        break
    time.sleep(0.01)
native = FunctionLibrary("function", [function])["f"]
at, out, v = np.linspace(0.1, 1.0, 40), np.empty(40), np.ones(40)
ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * 2)(native.value)(0.0, at.ctypes.data, out.ctypes.data)
print(out.sum().hex())
call = ctypes.CFUNCTYPE(None, ctypes.c_double, *[ctypes.c_void_p] * 4)(native.second)
call(0.0, at.ctypes.data, v.ctypes.data, v.ctypes.data, out.ctypes.data)
print(out.sum().hex())
"""


def expected_sums() -> tuple[float, float]:
    at = np.linspace(0.1, 1.0, 40)
    after = np.roll(at, -1)
    return float((np.sin(at) * np.exp(after)).sum()), float((2 * np.cos(at) * np.exp(after)).sum())


@pytest.mark.parametrize("count", [2, 4])
def test_processes_that_compile_the_same_model(count, cache, tmp_path):
    script, go = tmp_path / "script.py", tmp_path / "go"
    script.write_text(SCRIPT)
    ready = [tmp_path / f"ready{i}" for i in range(count)]
    processes = [
        subprocess.Popen(
            [sys.executable, str(script), str(path), str(go)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for path in ready
    ]
    try:
        while not all(path.exists() for path in ready) and all(process.poll() is None for process in processes):
            time.sleep(0.01)
        go.touch()
        answers = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * count, answers
    for output, errors in answers:
        values = [float.fromhex(line) for line in output.split()]
        np.testing.assert_allclose(values, expected_sums(), rtol=1e-13)
        assert errors == ""
    left = files(cache / "models")
    assert len(left) == 2
    assert all(path.suffix == ".obj" and read_cached(path, store._MARK) is not None for path in left)
