"""The one way this project compiles: the flags, and a disk cache that cannot go stale.

numba's cache looks at the file of the function alone, so an edited helper in another file leaves
old machine code behind; and two processes that write to it at once may mix their entries up. Here
the cache folder is named after a hash of all sources, and `compiling` lets one process at a time
write to it.
"""

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba import njit
from numba.core.caching import UserProvidedCacheLocator

PACKAGES = ("divergence", "trainer", "orchestrator/sources/simulator")
ROOT = Path(__file__).parent.parent
F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_dir() -> Path:
    """Where compiled kernels live: one folder for each state of the sources."""
    digest = hashlib.sha256(numba.__version__.encode())
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "holdfast" / f"kernels-{digest.hexdigest()[:16]}"


class AnywhereLocator(UserProvidedCacheLocator):
    """Finds kernels wherever the sources lie: code that is sent to a node is in a new folder there.

    numba would look for those of this very path.
    """

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """The folder of a source file within `cache_dir`."""
        folder = Path(py_file).parent
        if folder.is_relative_to(ROOT):
            return "-".join(folder.relative_to(ROOT).parts)
        return str(super().get_suitable_cache_subpath(py_file))  # type: ignore[no-untyped-call]


@contextmanager
def compiling() -> Iterator[None]:
    """Held around a first call: other processes wait, then load what this one compiled."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def jit(function: F) -> F:
    """Compile on first call; IEEE arithmetic, division by zero gives inf, the GIL released.

    Not `fastmath`: its nnan and ninf flags would make the detector miss what it looks for.
    """
    return _compile(function, cache=True, nogil=True)


def inlined(function: F) -> F:
    """Compile into every caller: a stage of a kernel, which has no life of its own."""
    return _compile(function, forceinline=True)


def _compile(function: F, **flags: bool) -> F:
    config: Any = numba.config
    before = config.CACHE_DIR, getattr(config, "CACHE_LOCATOR_CLASSES", "")  # old numba: not there
    config.CACHE_DIR = str(cache_dir())
    config.CACHE_LOCATOR_CLASSES = f"{__name__}.{AnywhereLocator.__name__}"
    try:
        compiled: Any = njit(error_model="numpy", **flags)  # type: ignore[call-overload]
        return cast(F, compiled(function))
    finally:
        config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES = before
