"""The environment of a Ray of our own, to be set before Ray is imported (it is not here)."""

import os

UNHEARD = "RAY_IGNORE_UNHANDLED_ERRORS"
"""Ray reports answers that nobody has looked at. Rows asked for ahead may not be needed."""
QUIET = {
    UNHEARD: "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",  # said on purpose: others on this machine cannot send it work
    "RAY_worker_niceness": "0",  # training is the work itself; Ray's 15 is for the background
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def local_environment() -> None:
    """Quiet, with a token, and one thread in each process; what the user has set stays."""
    for name, value in (QUIET | dict.fromkeys(THREADS, "1")).items():
        os.environ.setdefault(name, value)
