"""The one decorator for native kernels, and its cache on disk.

Numba decides by the time stamp of a function's own file whether a cached kernel is fresh; it does
not see that a *callee in another file* has changed, and then serves stale machine code.  Therefore
all kernels of odefit share one folder, ``<user cache>/odefit/kernels-<digest>``, whose digest covers
the source text of every file of the package that defines a kernel (or coefficients from which kernels are made) or that
one of these imports: touch one, and everything is compiled anew.  (The CPU and its features are part of the key,
and numba's version of the names of the files.)

Numba's files are pickles, which run whatever stands in them; ours are read and written by `odefit.native.cache_folder`,
which lets nobody else have a hand in them.

Compiling takes seconds; the logger ``odefit.compile`` says so once for each entry point.
"""

from __future__ import annotations

import hashlib
import logging
import pickle
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba import types
from numba.core import caching, event
from numba.core.serialize import dumps

from odefit.native.cache_folder import cache_folder, read_cached, write_cached
from odefit.native.inlining import Helper, HelperCompiler
from odefit.native.places import package_root

logger = logging.getLogger("odefit.compile")

_MARK = re.compile(rb"@kernel|\bTableau\(")  # from a tableau of coefficients kernels are made
_FILE_MARK = b"odefit-kernel-1\n"
_IMPORTS = re.compile(r"^from odefit\.([\w.]+) import", re.MULTILINE)


def source_digest(root: Path) -> str:
    """Hash path and text of every file below `root` that defines kernels, and of the files those import from.

    Constants and intrinsics are compiled into the kernels that use them.
    """
    texts = {path: path.read_bytes() for path in root.rglob("*.py")}
    covered = {path for path, text in texts.items() if _MARK.search(text)}
    for path in list(covered):
        for module in _IMPORTS.findall(texts[path].decode()):
            covered.add(root.joinpath(*module.split(".")).with_suffix(".py"))
    digest = hashlib.sha256()
    for path in sorted(covered & texts.keys()):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + texts[path] + b"\0")
    return digest.hexdigest()[:20]


@cache
def _folder_name() -> str:
    return f"kernels-{source_digest(package_root())}"


def kernel_folder() -> Path:
    """Return the folder that holds this version's compiled kernels, made if needed."""
    return cache_folder(_folder_name())


_CacheLocator: Any = caching._CacheLocator


class _Locator(_CacheLocator):
    """Tell functions apart by their names; where files are is for `_KernelFiles` to say, when one is needed."""

    def __init__(self, py_func: Any) -> None:
        self._line = py_func.__code__.co_firstlineno
        self._module = py_func.__module__
        self._name = py_func.__qualname__

    def ensure_cache_path(self) -> None:
        """Leave it to the writing of a file."""

    def get_cache_path(self) -> str:
        return _folder_name()

    def get_source_stamp(self) -> str:
        return _folder_name()

    def get_disambiguator(self) -> str:
        return f"{self._module}-{self._name}-{self._line}"

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator:
        return cls(py_func)


class _KernelCacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]


_IndexDataCacheFile: Any = caching.IndexDataCacheFile


class _KernelFiles(_IndexDataCacheFile):
    """Index and machine code of one kernel on disk; freshness is the folder's name.

    A signature may have types of another module, such as the room of an integrator of one's own, which exists in some
    processes only.  Therefore each is stored by itself; those that mean nothing here stay what they are, and keep their
    files.
    """

    def __init__(self, name: str) -> None:
        super().__init__("", f"{name}-numba-{numba.__version__}", _folder_name())

    def _load_index(self) -> dict[Any, str]:
        content = self._read(self._index_name)
        index: dict[Any, str] = {}
        for stored, name in [] if content is None else pickle.loads(content):
            try:
                key = pickle.loads(stored)
            except (ImportError, AttributeError):
                key = stored
            index[key] = name
        return index

    def _save_index(self, overloads: dict[Any, str]) -> None:
        entries = [(key if isinstance(key, bytes) else dumps(key), name) for key, name in overloads.items()]
        write_cached(kernel_folder() / self._index_name, _FILE_MARK, dumps(entries))

    def _load_data(self, name: str) -> Any:
        content = self._read(name)
        if content is None:
            raise FileNotFoundError(name)
        return pickle.loads(content)

    def _save_data(self, name: str, data: Any) -> None:
        write_cached(kernel_folder() / name, _FILE_MARK, dumps(data))

    def _read(self, name: str) -> bytes | None:
        """Return what a file holds; one that cannot be used is absent, which is said once for a folder."""
        folder = kernel_folder()
        try:
            return read_cached(folder / name, _FILE_MARK)
        except ValueError as error:
            _warn_of_unusable(folder, f"'{name}' {error}")
            return None


@cache
def _told(folder: Path) -> list[str]:
    """Return what was said about a folder."""
    return []


def _warn_of_unusable(folder: Path, reason: str) -> None:
    if not _told(folder):
        logger.warning("the kernel cache in %s cannot be used (%s); compiling again", folder, reason)
    _told(folder).append(reason)


class _KernelCache(caching.FunctionCache):
    _impl_class = _KernelCacheImpl

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        self._cache_file = _KernelFiles(self._impl.filename_base)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Leave out numba's hash of enclosed values, where another kernel has a new one in every process.

        They come from the sources, which the folder's name covers; `named` tells functions of one source apart.
        """
        return sig, codegen.magic_tuple()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception as error:  # pickle raises almost anything
            _warn_of_unusable(Path(_folder_name()), str(error))
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_of_unusable(Path(_folder_name()), f"a kernel could not be written: {error}")


class _Announcer(event.Listener):
    """Log the entry points of odefit that numba really compiles (cache hits raise no event)."""

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if (function.__module__ or "").startswith("odefit.") and function not in _inlined:
            logger.info("compiling kernel %s (once on this machine)", function.__name__)

    def on_end(self, event: Any) -> None:
        """Nothing to say at the end."""


class _Guard(event.Listener):
    """Refuse helpers that hand on an array whose references they do not count: it would be freed too early."""

    def on_start(self, event: Any) -> None:
        """Nothing is known yet."""

    def on_end(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if dispatcher.py_func in _uncounted:
            for overload in dispatcher.overloads.values():
                if _holds_arrays(overload.signature.return_type):
                    raise TypeError(
                        f"the helper {dispatcher.py_func.__name__} returns an array: mark it allocating=True"
                    )


def _holds_arrays(kind: Any) -> bool:
    parts: Any = kind if isinstance(kind, types.BaseTuple) else ()
    return isinstance(kind, types.Array) or any(map(_holds_arrays, parts))


event.register("numba:compile", _Announcer())
event.register("numba:compile", _Guard())
_inlined: set[Callable[..., Any]] = set()
_uncounted: set[Callable[..., Any]] = set()


def named(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Name a function that is made more than once, around other kernels: cache and log go by the name."""

    def rename(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__name__ = function.__qualname__ = name
        return function

    return rename


def kernel(function: Any = None, *, inline: bool = False, allocating: bool = False) -> Any:
    """Compile a function to native code on first use: cached, without the GIL, IEEE division, fused products.

    Parameters
    ----------
    inline
        For helpers of other kernels: always inlined (a call hands over every array in seven pieces, which costs more
        than a small loop), neither cached nor announced by themselves, and not to be called from Python.
    allocating
        A helper that makes arrays or returns some.  Others count no references: the arrays that they are given live
        as long as their caller, and counting costs two atomic operations an array and call, of which the compiler
        removes few (it made `ddm` a third slower).  A helper that is not marked and needs counting does not compile.
    """
    if function is None:
        return partial(kernel, inline=inline, allocating=allocating)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "forceinline": inline}
    if inline:
        options["pipeline_class"] = HelperCompiler
        _inlined.add(function)
        options["no_cfunc_wrapper"] = options["no_cpython_wrapper"] = True
    if inline and not allocating:
        options["_nrt"] = False
        _uncounted.add(function)
    dispatcher: Any = numba.njit(**options)(function)
    if inline:
        dispatcher.__class__ = Helper
    else:
        dispatcher._cache = _KernelCache(function)
    return dispatcher


def kernel_overload(function: Any, signature: Any) -> Any:
    """Return what a kernel was compiled to for these argument types; it is compiled, or read from the cache, first."""
    function.compile(signature.args)
    return function.overloads[signature.args]
