"""Folders of the cache: for their owner alone, whoever else was there before; a cache of no use is no crash."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from odefit.native import cache_folder as module
from odefit.native.cache_folder import cache_folder, read_cached, write_cached

MARK = b"test-1\n"
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners and modes are those of POSIX systems")


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch) -> Path:
    """An empty place for the cache, and one for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(tmp_path / "above" / "cache"))
    module._trusted_root.cache_clear()
    module._substitute.cache_clear()
    yield tmp_path / "above" / "cache"
    module._trusted_root.cache_clear()
    module._substitute.cache_clear()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def said(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@posix
@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077, 0o277])
def test_nobody_else_may_look_whatever_the_mask(root, mask):
    before = os.umask(mask)
    try:
        write_cached(cache_folder("models") / "file", MARK, b"content")
    finally:
        os.umask(before)
    assert [mode(path) for path in (root.parent, root, root / "models")] == [0o700] * 3
    assert mode(root / "models" / "file") == 0o600
    assert read_cached(root / "models" / "file", MARK) == b"content"


@posix
def test_a_folder_of_an_earlier_version_is_closed(root, caplog):
    (root / "models").mkdir(parents=True, mode=0o755)
    (root / "models" / "file").write_text("kept")
    assert mode(cache_folder("models")) == 0o700
    assert (root / "models" / "file").read_text() == "kept"
    assert not said(caplog)


@posix
@pytest.mark.parametrize("bits", [0o777, 0o775, 0o757, 0o702])
def test_what_others_may_have_written_is_put_aside(root, bits, caplog):
    (root / "models").mkdir(parents=True)
    (root / "models" / "planted").write_text("x")
    (root / "models").chmod(bits)
    for _ in range(2):
        assert list(cache_folder("models").iterdir()) == []
    assert mode(root / "models") == 0o700
    (line,) = said(caplog)
    assert "can be changed by other users; it was put aside as" in line
    (aside,) = [path for path in root.iterdir() if path.name != "models"]
    assert (aside / "planted").read_text() == "x"


@posix
def test_what_belongs_to_another_user_is_put_aside(root, caplog, monkeypatch):
    (root / "models").mkdir(parents=True)
    (root / "models" / "planted").write_text("x")
    owner = root.stat().st_uid
    module._trusted_root(root)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    write_cached(root / "file", MARK, b"content")
    assert list(cache_folder("models").iterdir()) == []
    assert "belongs to another user; it was put aside" in said(caplog)[0]
    with pytest.raises(ValueError, match="belongs to another user"):
        read_cached(root / "file", MARK)


@posix
@pytest.mark.parametrize(
    ("bits", "owner", "reason"),
    [
        (0o777, 0, "every user can change it"),
        (0o755, 12345, "it belongs to another user"),
    ],
)
def test_a_root_that_is_not_trusted(root, bits, owner, reason, tmp_path, caplog, monkeypatch):
    (root / "kernels").mkdir(parents=True)
    root.chmod(bits)
    real, me = Path.stat, os.geteuid()

    def stat_of(path, **options):
        values = list(real(path, **options))
        if path == root:
            values[4] = owner or me
        return os.stat_result(values)

    monkeypatch.setattr(Path, "stat", stat_of)
    for name in ("kernels", "models"):
        assert cache_folder(name) == tmp_path / "temporary" / f"odefit-cache-{me}" / name
    (line,) = said(caplog)
    assert line.startswith(f"the cache folder '{root}' is not used: {reason}; compiled code is kept in")


@posix
def test_a_folder_for_all_users_may_hold_the_cache(tmp_path, monkeypatch):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(shared))
    assert cache_folder("models") == shared / "models"
    assert mode(shared) == 0o1777
    assert mode(shared / "models") == 0o700


@posix
def test_the_substitute_must_be_ours_too(root, tmp_path, caplog):
    root.parent.write_text("not a folder")
    planted = tmp_path / "temporary" / f"odefit-cache-{os.geteuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    folder = cache_folder("models")
    assert planted not in folder.parents
    assert folder.parent.parent == tmp_path / "temporary"
    assert mode(folder.parent) == 0o700
    assert len(said(caplog)) == 1


def test_the_substitute_is_found_again(root, caplog):
    root.parent.write_text("not a folder")
    first = cache_folder("models")
    module._substitute.cache_clear()
    module._trusted_root.cache_clear()
    assert cache_folder("models") == first


def test_no_home(monkeypatch, tmp_path, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "cache_root", lambda: Path("~/.cache/odefit"))
    assert tmp_path / "temporary" in cache_folder("models").parents
    assert "there is no home folder" in said(caplog)[0]
    assert not (tmp_path / "~").exists()


@posix
@pytest.mark.parametrize("bits", [0o622, 0o660, 0o602])
def test_a_file_that_others_can_write_is_not_read(root, bits):
    path = cache_folder("models") / "file"
    write_cached(path, MARK, b"content")
    path.chmod(bits)
    with pytest.raises(ValueError, match="can be changed by other users"):
        read_cached(path, MARK)


@posix
@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_not_read(root, make):
    path = cache_folder("models") / "file"
    make(path)
    with pytest.raises(ValueError, match="is no ordinary file"):
        read_cached(path, MARK)


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: b"", lambda c: c + b"x", lambda c: b"test-2\n" + c[7:]])
def test_a_damaged_file_is_not_read(root, change):
    path = cache_folder("models") / "file"
    write_cached(path, MARK, b"content")
    path.write_bytes(change(path.read_bytes()))
    path.chmod(0o600)
    with pytest.raises(ValueError, match="was damaged"):
        read_cached(path, MARK)


def test_an_absent_file_is_none(root):
    assert read_cached(cache_folder("models") / "file", MARK) is None


SCRIPT = """
import logging
logging.basicConfig(format="%(message)s")
from odefit.native.kernel import kernel, kernel_folder
@kernel
def twice(x):
    return 2.0 * x
print(twice(21.0), kernel_folder())
"""


def run(tmp_path: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ODEFIT_CACHE_DIR"} | changes
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, str(script)], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )


PICKLE = b"cposix\nsystem\n(S'touch %s'\ntR."


@posix
@pytest.mark.slow
@pytest.mark.parametrize("sealed", [False, True])
def test_a_planted_pickle_is_not_executed(tmp_path, sealed):
    """Neither numba's own format nor ours is unpickled if somebody else may have written it."""
    cache, hit = tmp_path / "cache", tmp_path / "hit"
    done = run(tmp_path, ODEFIT_CACHE_DIR=str(cache))
    assert done.stdout.startswith("42.0"), done.stderr
    planted = PICKLE % str(hit).encode()
    (folder,) = cache.glob("kernels-*")
    found = [path for path in folder.iterdir() if path.suffix in (".nbi", ".nbc")]
    assert len(found) == 2
    for path in found:
        if sealed:
            write_cached(path, b"odefit-kernel-1\n", planted)
            path.chmod(0o666)
        else:
            path.write_bytes(planted)
    done = run(tmp_path, ODEFIT_CACHE_DIR=str(cache))
    assert done.stdout.startswith("42.0")
    assert done.stderr.count("\n") == 1
    assert "cannot be used" in done.stderr
    assert not hit.exists()


@posix
@pytest.mark.slow
@pytest.mark.parametrize("home", ["", "/dev/null/nowhere", "/proc/nowhere"])
def test_a_home_that_is_none(tmp_path, home):
    changes = {"HOME": home, "XDG_CACHE_HOME": f"{home}/cache" if home else "", "TMPDIR": str(tmp_path)}
    done = run(tmp_path, **changes)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("42.0")
    assert done.stderr.count("\n") <= 1
