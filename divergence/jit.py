"""The one way this project compiles: the flags, and a disk cache that cannot go stale.

numba's own cache looks at the file of the function alone, so an edited helper in another file
leaves old machine code behind; and two processes that write to it at once may mix up their
entries. Here a function's cache folder is named after a hash of the sources that it may call:
those of this package, and those in the function's own folder. `compiling` lets one process at a
time write to the cache.
"""

import fcntl
import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit, types
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
)

HERE = Path(__file__).parent
F = TypeVar("F", bound=Callable[..., Any])


def cache_dir() -> Path:
    """Where compiled kernels live."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "holdfast" / "kernels"


def cache_folder(sources: Path) -> Path:
    """Where the kernels of one source folder live: a new place for each state of the sources.

    It does not depend on where the sources are, so code that is sent to another machine finds its
    kernels there.
    """
    return cache_dir() / f"{sources.name}-{_hash_of(sources)}"


@cache
def _hash_of(folder: Path) -> str:
    """A hash of this package, of the files in one folder, and of the compiler's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for root, pattern in ((HERE, "**/*.py"), (folder, "*.py")):
        for path in sorted(root.glob(pattern)):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class _Locator(InTreeCacheLocator):
    def get_cache_path(self) -> str:
        return str(cache_folder(Path(self._py_file).parent))


class _Entries(CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [_Locator]  # noqa: RUF012


class KernelCache(FunctionCache):
    """numba's cache in our folders.

    Classes of other folders among the arguments have code that the hash does not cover. Where one
    has a `code_hash`, as a rule of the user's own, its kernels have a folder for this code. Others
    are compiled by every process and never cached.
    """

    _impl_class = _Entries

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function for these argument types, or None."""
        cache = self._cache_of(sig)
        return cache and FunctionCache.load_overload(cache, sig, target_context)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a function that was compiled for these argument types."""
        cache = self._cache_of(sig)
        if cache is not None:
            FunctionCache.save_overload(cache, sig, data)  # type: ignore[no-untyped-call]

    def _cache_of(self, sig: Any) -> "KernelCache | None":
        hashes = [getattr(kind, "code_hash", None) for kind in self._foreign(sig)]
        if None in hashes:
            return None
        return self if not hashes else self._own_cache("-".join(sorted(set(map(str, hashes)))))

    def _foreign(self, sig: Any) -> list[type]:
        """The classes whose code the hash of this cache's folder does not cover."""
        own = Path(inspect.getfile(self._py_func)).parent
        found = []
        for kind in _classes(sig):
            file = Path(getattr(sys.modules.get(kind.__module__), "__file__", None) or "unknown")
            if not (file.is_relative_to(HERE) or file.parent == own):
                found.append(kind)
        return found

    def _own_cache(self, code: str) -> "KernelCache":
        """The cache of kernels that contain this code of the user's own."""
        folder = f"{self._cache_path}-own-{hashlib.sha256(code.encode()).hexdigest()[:16]}"
        Path(folder).mkdir(parents=True, exist_ok=True)
        cache = KernelCache(self._py_func)  # type: ignore[no-untyped-call]
        cache._cache_path = folder
        stamp = cache._impl.locator.get_source_stamp()
        cache._cache_file = IndexDataCacheFile(folder, cache._impl.filename_base, stamp)  # type: ignore[no-untyped-call]
        return cache


def _classes(arguments: Any) -> Iterator[type]:
    """The classes of the named tuples among these argument types."""
    for argument in arguments:
        if isinstance(argument, types.BaseNamedTuple):
            yield argument.instance_class  # type: ignore[attr-defined]
        yield from _classes(getattr(argument, "types", ()))


@contextmanager
def compiling() -> Iterator[None]:
    """Held around a first call: other processes wait, then load what this one compiled.

    Processes with another state of this package do not wait: their kernels are elsewhere.
    """
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / f"lock-{_hash_of(HERE)}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def jit(function: F) -> F:
    """Compile on first call; IEEE arithmetic, division by zero gives inf, the GIL released.

    Not `fastmath`: its nnan and ninf flags would make the detector miss what it looks for.
    """
    compiled: Any = njit(error_model="numpy", nogil=True)(function)
    compiled._cache = KernelCache(function)  # type: ignore[no-untyped-call]
    return cast(F, compiled)


def inlined(function: F) -> F:
    """Compile into every caller: a stage of a kernel, which is never called by itself.

    Stages need no wrappers for calls from Python or C, which would be a third of a compilation.
    """
    no_wrappers: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # not in the stubs
    return cast(F, njit(error_model="numpy", forceinline=True, **no_wrappers)(function))
