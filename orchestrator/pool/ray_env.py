"""Which Ray to use, and the cores and the environment of a local one. Ray is not imported here: it
reads its environment when it is."""

import os
from dataclasses import dataclass

IGNORE_UNREAD = "RAY_IGNORE_UNHANDLED_ERRORS"
"""Ray reports errors in answers that nobody reads. Rows requested ahead may not be needed."""
QUIET = {
    IGNORE_UNREAD: "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",  # set explicitly: other users of this machine cannot send it work
    "RAY_worker_niceness": "0",  # training is the work itself; Ray's 15 is for the background
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running Ray cluster, and whether to send it this code."""

    address: str
    ship: bool = False


def local_environment() -> None:
    """Quiet, with a token, one thread per process. Variables that the user has set stay."""
    for name, value in (QUIET | dict.fromkeys(THREADS, "1")).items():
        os.environ.setdefault(name, value)


def local_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
