"""Start a local Ray, or connect to a running cluster.

Ray reads some of its settings when it is imported: call `local_environment` before that.
"""

import logging
import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import ray
from ray.exceptions import RayError

from divergence.errors import InputError, one_line
from orchestrator.pool.ray_env import IGNORE_UNREAD, Cluster, local_cores

ANSWER_S = 10.0
AGENT = re.compile(r"ray::\w+Agent|dashboard/agent\.py|runtime_env/agent/main\.py")
"""The command line of an agent, before and after it has given itself a name."""
ROOT, PACKAGES = Path(__file__).parents[2], ("divergence", "trainer", "orchestrator")


@contextmanager
def started_ray(
    cluster: Cluster | None, actors: int | None, verbose: bool
) -> Iterator[Callable[[], int]]:
    """Connect to a cluster, or start a local Ray for so many actors.

    Gives a function that says how many actors there should be now: `actors`, or one for each core,
    which on a cluster come and go. A local Ray stops at the end of the block. A Ray that this
    process is connected to already is used and left running.
    """
    if ray.is_initialized():
        yield lambda: actors or cluster_cores()
        return
    if cluster is not None:
        _connect(cluster, verbose)
    else:
        _start(actors or local_cores(), verbose)
    try:
        with _agents_end_with_us() if cluster is None else nullcontext():
            yield lambda: actors or cluster_cores()
    finally:
        ray.shutdown()


def cluster_cores() -> int:
    """The cores of all nodes that are up."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(int(resources.get("CPU", 1)), 1)


def _connect(cluster: Cluster, verbose: bool) -> None:
    os.environ.setdefault(IGNORE_UNREAD, "1")
    try:
        _check_reachable(cluster.address)
        with _code() if cluster.ship else nullcontext() as code:
            ray.init(
                address=cluster.address,
                log_to_driver=verbose,
                logging_level=_level(verbose),
                runtime_env={"working_dir": code} if code else None,
            )
    except (ConnectionError, RuntimeError, ValueError, OSError, RayError) as error:
        raise InputError(
            f"--address {cluster.address}: cannot connect to a Ray cluster: "
            f"{_first_sentence(error)}{_hint(error)}"
        ) from None


def _hint(error: Exception) -> str:
    """What may be wrong where something answers, but not as expected."""
    nobody = "Could not find" in str(error) or (isinstance(error, OSError) and error.errno)
    if nobody:
        return ""
    if os.environ.get("RAY_AUTH_MODE") == "token":
        return ": is the token (RAY_AUTH_TOKEN, ~/.ray/auth_token) the cluster's?"
    return ": does the cluster need a token (RAY_AUTH_MODE=token)?"


def _first_sentence(error: Exception) -> str:
    return one_line(error).strip("'\"").split(". ")[0]


@contextmanager
def _code() -> Iterator[str]:
    """A folder with our packages and nothing else: what is sent to the cluster."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        for package in PACKAGES:
            source, target = ROOT / package, Path(folder) / package
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        yield folder


def _check_reachable(address: str) -> None:
    """Fail fast: Ray itself retries for half a minute before it gives up."""
    host, _, port = address.rpartition(":")
    if "://" not in address and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()


def _start(actors: int, verbose: bool) -> None:
    mask = os.umask(0o077)  # Ray writes its token with the permissions of the moment
    try:
        ray.init(
            address="local",  # else RAY_ADDRESS or another Ray of this machine is used
            num_cpus=actors,
            include_dashboard=False,
            log_to_driver=verbose,
            logging_level=_level(verbose),
            _node_ip_address="127.0.0.1",
        )
    except Exception as error:  # Ray raises plain ones here
        lines = str(error).strip().splitlines() or [repr(error)]
        raise InputError(f"Ray does not start on this machine: {lines[0]}") from error
    finally:
        os.umask(mask)


@contextmanager
def _agents_end_with_us() -> Iterator[None]:
    """If this process is killed, kill the agents of its Ray, too.

    They notice at once that their Ray is gone, but report it to its dead server for a minute. A
    shell waits for the end of its input, which this process holds, and kills them.
    """
    command = ["/bin/sh", "-c", 'read -r _; sleep 1; kill -9 "$@"', "holdfast-agents", *_agents()]
    null = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=null, stderr=null, start_new_session=True
    ) as waiting:
        try:
            yield
        finally:
            waiting.kill()


def _agents() -> list[str]:
    """The process ids of the agents, which run as long as their Ray."""
    import psutil  # type: ignore[import-untyped]  # a part of Ray, on the path once it is imported

    raylets = (p for p in psutil.Process().children() if p.name() == "raylet")
    below = (p for raylet in raylets for p in raylet.children())
    return [str(p.pid) for p in below if AGENT.search(" ".join(p.cmdline()))]


def _level(verbose: bool) -> int:
    return logging.INFO if verbose else logging.ERROR
