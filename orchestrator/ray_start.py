"""Ray: one of our own on this machine, or a cluster that is there.

Ray reads some of its settings when it is imported: call `local_environment` before that.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from divergence.errors import InputError


def cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def started_ray(address: str | None, actors: int | None, verbose: bool) -> Iterator[int]:
    """Connect to a cluster, or start a Ray for so many actors; gives how many there is room for.

    A Ray of our own ends with the block. One that this process has already stays as it is.
    """
    if ray.is_initialized():
        yield actors or _room()
        return
    if address is not None:
        _connect(address, verbose)
        wanted = actors or _room()
    else:
        wanted = actors or cores()
        _start(wanted, verbose)
    try:
        yield wanted
    finally:
        ray.shutdown()


def _connect(address: str, verbose: bool) -> None:
    try:
        ray.init(address=address, log_to_driver=verbose, logging_level=_level(verbose))
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        told = str(error).strip().splitlines()
        raise InputError(
            f"--address {address}: no Ray cluster answers there: {told[0] if told else error!r}"
        ) from None


def _start(actors: int, verbose: bool) -> None:
    mask = os.umask(0o077)  # Ray writes its token with the permissions of the moment
    try:
        ray.init(
            num_cpus=actors,
            include_dashboard=False,
            log_to_driver=verbose,
            logging_level=_level(verbose),
            _node_ip_address="127.0.0.1",
        )
    except Exception as error:  # Ray raises plain ones here
        told = str(error).strip().splitlines() or [repr(error)]
        raise InputError(f"Ray does not start on this machine: {told[0]}") from error
    finally:
        os.umask(mask)


def _level(verbose: bool) -> int:
    return logging.INFO if verbose else logging.ERROR


def _room() -> int:
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(int(resources.get("CPU", 1)), 1)
