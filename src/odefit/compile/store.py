"""The on-disk cache of compiled model functions.

A file holds an object file and the patterns that belong to it.  Its name is a digest of everything
that determines the content: the symbolic functions, the package version, the sources of this stage,
the versions of CasADi and llvmlite, and the CPU.  So a changed model can never meet an old file.

Files are written atomically, carry their own checksum, and are read only if nobody else can have written them
(`odefit.native.cache_folder`): another file is treated as absent and replaced.  Processes that compile the same
model at the same time each do the work and leave one complete file.
"""

from __future__ import annotations

import hashlib
import json
import logging
import struct
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import casadi as ca
import llvmlite

from odefit.compile.machine import host
from odefit.native.cache_folder import cache_folder, read_cached, write_cached

logger = logging.getLogger("odefit.compile")

_MARK = b"odefit-object-1\n"


@dataclass(frozen=True)
class StoredObject:
    """Machine code with the integers (patterns, sizes) that its callers need."""

    code: bytes
    facts: dict[str, Any]


@cache
def surroundings() -> bytes:
    """Everything outside the model on which compiled code depends."""
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(path.read_bytes())
    parts = [version("odefit"), sources.hexdigest(), ca.CasadiMeta.version(), llvmlite.__version__, *host()]
    return "\0".join(parts).encode()


def key(kind: str, *contents: str) -> str:
    """Return the file name of the object made of `contents` (serialised functions, options)."""
    digest = hashlib.sha256(surroundings())
    for part in (kind, *contents):
        digest.update(b"\0" + part.encode())
    return digest.hexdigest()[:40]


def path_of(name: str) -> Path:
    """Return where the object `name` is kept."""
    return cache_folder("models") / f"{name}.obj"


def pack(stored: StoredObject) -> bytes:
    """Return the content of a cache file."""
    facts = json.dumps(stored.facts).encode()
    return struct.pack("<Q", len(facts)) + facts + stored.code


def unpack(content: bytes) -> StoredObject:
    """Read the content of a cache file."""
    (size,) = struct.unpack_from("<Q", content)
    return StoredObject(code=content[8 + size :], facts=json.loads(content[8 : 8 + size]))


def load(name: str) -> StoredObject | None:
    """Return the object `name`, or None if it is absent, damaged, or not to be trusted."""
    try:
        path = path_of(name)
    except OSError:
        return None  # there is no cache; `save` says so
    try:
        content = read_cached(path, _MARK)
    except ValueError as error:
        logger.warning("the cached model %s %s; it is compiled again", path, error)
        return None
    return None if content is None else unpack(content)


def save(name: str, stored: StoredObject) -> None:
    """Keep the object `name`; a cache that cannot be written costs time, not correctness."""
    try:
        write_cached(path_of(name), _MARK, pack(stored))
    except OSError as error:
        logger.warning("the compiled model could not be cached (%s)", error)
