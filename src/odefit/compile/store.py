"""The on-disk cache of compiled model functions.

A file holds an object file and the patterns that belong to it.  Its name is a digest of everything
that determines the content: the symbolic functions, the package version, the sources of this stage,
the versions of CasADi and llvmlite, and the CPU.  So a changed model can never meet an old file.

Files are written atomically, and carry their own checksum: a truncated or damaged file is treated
as absent and replaced.  Processes that compile the same model at the same time each do the work and
leave one complete file.
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
from odefit.native.places import cache_root, write_atomically

logger = logging.getLogger("odefit.compile")

_MAGIC = b"odefit-object-1\n"
_DIGEST_SIZE = 32


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
    return cache_root() / "models" / f"{name}.obj"


def pack(stored: StoredObject) -> bytes:
    """Return the bytes of a cache file."""
    facts = json.dumps(stored.facts).encode()
    body = struct.pack("<Q", len(facts)) + facts + stored.code
    return _MAGIC + hashlib.sha256(body).digest() + body


def unpack(content: bytes) -> StoredObject | None:
    """Read a cache file; None if it is not complete and intact."""
    start = len(_MAGIC) + _DIGEST_SIZE
    body = content[start:]
    if not content.startswith(_MAGIC) or hashlib.sha256(body).digest() != content[len(_MAGIC) : start]:
        return None
    (size,) = struct.unpack_from("<Q", body)
    return StoredObject(code=body[8 + size :], facts=json.loads(body[8 : 8 + size]))


def load(name: str) -> StoredObject | None:
    """Return the object `name`, or None if it is absent or damaged."""
    path = path_of(name)
    try:
        content = path.read_bytes()
    except OSError:
        return None
    stored = unpack(content)
    if stored is None:
        logger.warning("the cached model %s was damaged; it is compiled again", path)
    return stored


def save(name: str, stored: StoredObject) -> None:
    """Keep the object `name`; a cache that cannot be written costs time, not correctness."""
    try:
        write_atomically(path_of(name), pack(stored))
    except OSError as error:
        logger.warning("the compiled model could not be cached in %s (%s)", path_of(name).parent, error)
