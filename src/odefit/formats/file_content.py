"""The bytes of a file that a person named: of an ordinary file, and no more than a problem can hold.

A name may lead anywhere: to a pipe that nobody writes to, to a device without end, to a disk image.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MEGABYTE = 1_000_000
LARGEST_PROBLEM = 16 * MEGABYTE
LARGEST_DATA = 256 * MEGABYTE
LARGEST_RESULT = 64 * MEGABYTE


def read_content(path: Path, limit: int) -> bytes:
    """Return the bytes of an ordinary file.

    Raises
    ------
    OSError
        With a `strerror` for a message: if the file cannot be read, is a folder, a pipe or a device, or has more than
        `limit` bytes.
    ValueError
        If there cannot be a file of that name.
    """
    with open(path, "rb", opener=_opened, buffering=0) as stream:
        parts = []
        left = limit + 1
        while left > 0 and (part := stream.read(min(left, 16 * MEGABYTE))):
            parts.append(part)
            left -= len(part)
    if left <= 0:
        raise OSError(errno.EFBIG, f"it has more than {limit // MEGABYTE} MB")
    return b"".join(parts)


def _opened(path: str, flags: int) -> int:
    """Open an ordinary file, and refuse all else; opening a pipe waits for somebody who writes, unless told not to."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return handle
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, f"it is a {'pipe' if stat.S_ISFIFO(mode) else 'device'}, not a file")
