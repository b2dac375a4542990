"""How the simulator compiles: the flags, and a disk cache that cannot go stale.

numba's cache looks at the file of a function alone, so an edited helper in another file would
leave old machine code behind. Here the cache folder is named after a hash of the whole package.
"""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

config: Any = numba.config  # its settings are set at run time, out of sight of type checkers

F = TypeVar("F", bound=Callable[..., Any])


@cache
def cache_dir() -> str:
    """Where compiled kernels live: one folder for each state of the sources."""
    digest = hashlib.sha256(numba.__version__.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return str(Path(home) / "holdfast" / f"simulator-{digest.hexdigest()[:16]}")


def jit(function: F) -> F:
    """Compile on first call: IEEE arithmetic, a disk cache, the GIL released."""
    before = config.CACHE_DIR
    config.CACHE_DIR = cache_dir()
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        config.CACHE_DIR = before
    return compiled  # type: ignore[no-any-return]
