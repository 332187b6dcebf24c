from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import platformdirs
import pytest

import odefit
from odefit.native import places
from odefit.native.places import cache_root, package_root, write_atomically


def everything(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_cache_root_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(tmp_path / "here"))
    assert cache_root() == tmp_path / "here"
    monkeypatch.setenv("ODEFIT_CACHE_DIR", str(tmp_path / "there"))
    assert cache_root() == tmp_path / "there"
    assert not everything(tmp_path)


@pytest.mark.parametrize("value", [None, ""])
def test_cache_root_of_the_user(value, monkeypatch):
    if value is None:
        monkeypatch.delenv("ODEFIT_CACHE_DIR", raising=False)
    else:
        monkeypatch.setenv("ODEFIT_CACHE_DIR", value)
    assert cache_root() == Path(platformdirs.user_cache_dir("odefit", appauthor=False))


def test_package_root():
    assert package_root() == Path(odefit.__file__).resolve().parent


@pytest.mark.parametrize("content", [b"", b"one", b"\0\xff" * 100_000])
@pytest.mark.parametrize("before", [None, b"old content"])
def test_write(tmp_path, content, before):
    path = tmp_path / "file.bin"
    if before is not None:
        path.write_bytes(before)
    write_atomically(path, content)
    assert path.read_bytes() == content
    assert everything(tmp_path) == ["file.bin"]


def test_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    write_atomically(path, b"x")
    assert path.read_bytes() == b"x"
    assert everything(path.parent) == ["file"]


class Interrupted(BaseException):
    pass


def fails_while_writing(monkeypatch, error):
    original = os.fdopen

    def opened(handle, mode):
        stream = original(handle, mode)

        class Stream:
            def __enter__(self):
                return self

            def __exit__(self, *_):
                stream.close()

            def write(self, content):
                stream.write(content[: len(content) // 2])
                raise error

        return Stream()

    monkeypatch.setattr(places.os, "fdopen", opened)


def fails_while_replacing(monkeypatch, error):
    def refuse(source, target):
        assert Path(source).read_bytes() == b"new content"
        raise error

    monkeypatch.setattr(places.os, "replace", refuse)


@pytest.mark.parametrize("before", [None, b"old content"])
@pytest.mark.parametrize("error", [OSError(28, "no space"), KeyboardInterrupt("stopped"), Interrupted("stopped")])
@pytest.mark.parametrize("failing", [fails_while_writing, fails_while_replacing])
def test_failure_leaves_the_old_file(tmp_path, monkeypatch, failing, error, before):
    path = tmp_path / "file.bin"
    if before is not None:
        path.write_bytes(before)
    failing(monkeypatch, error)
    with pytest.raises(type(error), match="no space|stopped"):
        write_atomically(path, b"new content")
    monkeypatch.undo()
    assert everything(tmp_path) == ([] if before is None else ["file.bin"])
    assert before is None or path.read_bytes() == before


def test_folder_in_the_way(tmp_path):
    (tmp_path / "file" / "occupied").mkdir(parents=True)
    with pytest.raises(OSError, match="file"):
        write_atomically(tmp_path / "file", b"x")
    assert everything(tmp_path) == ["file"]


def test_file_in_the_way_of_a_folder(tmp_path):
    (tmp_path / "folder").write_bytes(b"a file")
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder" / "file", b"x")
    assert (tmp_path / "folder").read_bytes() == b"a file"


def test_readers_see_whole_files(tmp_path):
    path = tmp_path / "file.bin"
    contents = [bytes([i]) * 200_000 for i in range(40)]
    write_atomically(path, contents[0])
    seen: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for content in contents:
        write_atomically(path, content)
    done.set()
    reader.join()
    assert seen
    assert set(seen) <= set(contents)


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from places import write_atomically
for _ in range(200):
    write_atomically(Path(sys.argv[1]), sys.argv[2].encode() * 50_000)
"""


def test_processes_that_write_the_same_file(tmp_path):
    path = tmp_path / "shared" / "file.bin"
    command = [sys.executable, "-c", WRITER, str(path)]
    folder = str(Path(places.__file__).parent)
    writers = [subprocess.Popen([*command, word, folder]) for word in "ab"]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert path.read_bytes() in (b"a" * 50_000, b"b" * 50_000)
    assert everything(path.parent) == ["file.bin"]
