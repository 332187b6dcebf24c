"""Where compiled things live on disk, and how files get there safely."""

from __future__ import annotations

import os
import tempfile
from functools import cache
from pathlib import Path

import platformdirs


def cache_root() -> Path:
    """Return the user's cache folder for odefit (``ODEFIT_CACHE_DIR`` overrides it)."""
    folder = os.environ.get("ODEFIT_CACHE_DIR")
    return Path(folder) if folder else Path(platformdirs.user_cache_dir("odefit", appauthor=False))


@cache
def package_root() -> Path:
    """Return the folder of the installed package."""
    return Path(__file__).resolve().parent.parent


@cache
def _umask() -> int:
    """Return the process's mask for new files (it can only be read by setting it)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_atomically(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write `content` so that a reader sees the old file or the whole new one, never a part.

    The folder is made if needed.  Two processes writing the same path leave one complete file.

    Parameters
    ----------
    mode
        Who may read and write the file; what is usual for new files if None.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        # mkstemp lets nobody but the owner read
        os.chmod(temporary, 0o666 & ~_umask() if mode is None else mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
