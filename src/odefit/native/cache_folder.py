"""The folders of compiled things on disk: what is read from them is executed, so nobody else may write there.

A cache is a way to make another person's program run one's own code: a kernel is kept as a pickle with machine code,
a model as machine code.  Therefore

* folders are made for their owner alone (0700) and files likewise (0600), whatever the mask for new files is;
* a folder is used only if it belongs to this user and nobody else may write into it; another one of that name is put
  aside;
* a file is read only if it belongs to this user and nobody else may write to it, which is asked of the *open* file;
* each file carries a checksum, since damaged machine code does not raise: it crashes.

Where there is no such place (no home, a full disk, somebody else's folder in ``ODEFIT_CACHE_DIR``), a folder for
temporary files takes its part.  Each decision is said once, in one line; none of them ends the program.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

from odefit.native.places import cache_root, write_atomically

logger = logging.getLogger("odefit.compile")

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_DIGEST_SIZE = hashlib.sha256().digest_size


def cache_folder(name: str) -> Path:
    """Return the folder `name` of the cache: it exists, is this user's own, and nobody else can write into it.

    Raises
    ------
    OSError
        If there is no place for it at all, not even among the temporary files.
    """
    try:
        return _private(_trusted_root(cache_root()) / name)
    except OSError as error:
        return _private(_substitute(cache_root(), f"'{name}' in it cannot be used ({error.strerror})") / name)


def read_cached(path: Path, mark: bytes) -> bytes | None:
    """Return the content of a file that `write_cached` wrote with this mark; None if there is none.

    Raises
    ------
    ValueError
        If the file is damaged, or may come from somebody else.  The message ends the sentence "the file ...".
    """
    try:
        with open(path, "rb", opener=_opened) as stream:
            content = stream.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"cannot be read ({error.strerror})") from None
    start = len(mark) + _DIGEST_SIZE
    body = content[start:]
    if not content.startswith(mark) or hashlib.sha256(body).digest() != content[len(mark) : start]:
        raise ValueError("was damaged")
    return body


def _opened(path: str, flags: int) -> int:
    """Open a file that is to be trusted; a pipe in its place must not make us wait."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    status = os.fstat(handle)
    fault = _fault(status) if stat.S_ISREG(status.st_mode) else "is no ordinary file"
    if fault:
        os.close(handle)
        raise ValueError(fault)
    return handle


def write_cached(path: Path, mark: bytes, body: bytes) -> None:
    """Write a file for this user alone, whole or not at all, so that `read_cached` finds the body again."""
    write_atomically(path, mark + hashlib.sha256(body).digest() + body, mode=0o600)


def _fault(status: os.stat_result) -> str:
    """Return why a file or folder is not to be trusted, as the end of a sentence; "" if it is."""
    if not hasattr(os, "geteuid"):
        return ""  # no such owners and modes here
    if status.st_uid != os.geteuid():
        return "belongs to another user"
    return "can be changed by other users" if status.st_mode & _OTHERS_WRITE else ""


@cache
def _trusted_root(root: Path) -> Path:
    """Return the folder of the cache, or what takes its part; decided once for a process."""
    if not root.is_absolute() and "~" in root.parts:
        return _substitute(root, "there is no home folder")
    try:
        _make(root)
        status = root.stat()
    except OSError as error:
        return _substitute(root, f"it cannot be used ({error.strerror})")
    if not hasattr(os, "geteuid"):
        return root
    if status.st_uid not in (os.geteuid(), 0):
        return _substitute(root, "it belongs to another user")
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        return _substitute(root, "every user can change it")
    if not os.access(root, os.W_OK | os.X_OK):
        return _substitute(root, "it cannot be written to")
    return root


@cache
def _substitute(root: Path, reason: str) -> Path:
    """Return a folder among the temporary files, the same one in the next process if that is possible."""
    owner = f"-{os.geteuid()}" if hasattr(os, "geteuid") else ""
    folder = Path(tempfile.gettempdir()) / f"odefit-cache{owner}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        usable = not folder.is_symlink() and not _fault(folder.stat()) and os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        usable = False
    if not usable:
        folder = Path(tempfile.mkdtemp(prefix="odefit-cache-"))
        owner_process = os.getpid()  # forked processes must not remove it
        atexit.register(lambda: os.getpid() == owner_process and shutil.rmtree(folder, ignore_errors=True))
    logger.warning(
        "the cache folder '%s' is not used: %s; compiled code is kept in '%s' (ODEFIT_CACHE_DIR chooses another)",
        root, reason, folder,
    )  # fmt: skip
    return folder


def _private(folder: Path) -> Path:
    """Return `folder`, made if needed; one that somebody else may have filled is put aside first."""
    _make(folder)
    status = folder.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, "not a folder")
    if fault := _fault(status):
        aside = Path(tempfile.mkdtemp(prefix=f"{folder.name}-aside-", dir=folder.parent))
        try:
            os.replace(folder, aside)
        except OSError:
            aside.rmdir()
            raise
        logger.warning("the cache folder '%s' %s; it was put aside as '%s' and is made anew", folder, fault, aside)
        _make(folder)
    elif hasattr(os, "geteuid") and stat.S_IMODE(status.st_mode) & 0o077:
        with contextlib.suppress(OSError):  # made by an earlier version; others can read it, no more
            folder.chmod(0o700)
    return folder


def _make(folder: Path) -> None:
    """Make a folder, and those above it, for this user alone; leave those that exist as they are."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        _make(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
    else:
        folder.chmod(0o700)  # the mask may have taken rights from ourselves
