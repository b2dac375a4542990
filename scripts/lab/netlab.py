"""Hosts of a laboratory: network namespaces with addresses of their own, on one switch.

Each host has its own interfaces, its own loopback and its own /tmp/ray; files are shared. Needs
root, Linux, and `ip` of iproute2. No host can be reached from outside. Without namespaces (or with
HOLDFAST_LAB=loopback) addresses of the loopback interface are the hosts, and links cannot be cut.
"""

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Self

SUBNET = "10.77.0"
RAY = "/tmp/ray"
MARK = "HOLDFAST_LAB_HOST"
NETWORK = 0x40000000
"""CLONE_NEWNET of sched.h"""


def can_make_hosts() -> bool:
    """Whether this process may make network namespaces, and HOLDFAST_LAB does not forbid it."""
    if os.environ.get("HOLDFAST_LAB") == "loopback":
        return False
    name = f"hf{secrets.token_hex(3)}"
    try:
        _ip("netns", "add", name)
        subprocess.run(["unshare", "-m", "true"], check=True, capture_output=True)
        _ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Host:
    """A host; `number` is the last part of its address."""

    def __init__(self, lab: str, switch: str, number: int, folder: Path) -> None:
        self.name, self.address = f"{lab}-{number}", f"{SUBNET}.{number}"
        self._switch, self._port = switch, f"port{number}"
        self._started: list[subprocess.Popen[bytes]] = []
        self._files = folder / f"host-{number}"
        self._files.mkdir(parents=True)
        _ip("netns", "add", self.name)
        end = ("type", "veth", "peer", "name", "eth0", "netns", self.name)
        _ip("link", "add", self._port, "netns", switch, *end)
        _ip("-n", switch, "link", "set", self._port, "master", "br0", "up")
        _ip("-n", self.name, "link", "set", "lo", "up")
        _ip("-n", self.name, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self.name, "link", "set", "eth0", "up")
        _ip("-n", self.name, "route", "add", "default", "via", f"{SUBNET}.254")  # leads nowhere

    def start(
        self, command: Sequence[str], env: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a process on this host."""
        own = f'mount --make-rprivate / && mount --bind "{self._files}" {RAY} && exec "$@"'
        here = ["ip", "netns", "exec", self.name, "unshare", "-m", "sh", "-c", own, "sh"]
        self._started.append(_popen([*here, *command], env, log))
        return self._started[-1]

    def answers(self, port: int) -> bool:
        """Whether somebody listens on this port."""
        probe = ["ip", "netns", "exec", self.name, "bash", "-c", f"</dev/tcp/{self.address}/{port}"]
        return subprocess.run(probe, capture_output=True).returncode == 0

    def listen(self) -> socket.socket:
        """A listening socket of this host, for a thread of this process to serve."""

        def inside() -> socket.socket:
            libc = ctypes.CDLL(None, use_errno=True)
            with Path(f"/run/netns/{self.name}").open("rb") as namespace:
                if libc.setns(namespace.fileno(), NETWORK):  # of this thread alone
                    raise OSError(ctypes.get_errno(), f"cannot enter {self.name}")
            return socket.create_server((self.address, 0), backlog=64)

        with ThreadPoolExecutor(1) as thread:  # which ends, and with it its stay there
            return thread.submit(inside).result()

    def pids(self, named: str = "") -> list[int]:
        """The processes of this host whose program's name has this in it."""
        found = subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True)
        return [pid for pid in map(int, found.stdout.split()) if named in _program(pid)]

    def received(self) -> int:
        """The bytes that have come in over its link."""
        counter = "/sys/class/net/eth0/statistics/rx_bytes"
        look = ["ip", "netns", "exec", self.name, "cat", counter]
        return int(subprocess.run(look, check=True, capture_output=True).stdout)

    def kill(self) -> None:
        """End all its processes and delete its files under /tmp/ray."""
        _kill(self.pids(), self._started)
        for entry in self._files.iterdir():
            subprocess.run(["rm", "-rf", str(entry)], check=False)

    def cut(self) -> None:
        """Take its link to the switch down."""
        _ip("-n", self._switch, "link", "set", self._port, "down")

    def heal(self) -> None:
        """Bring its link up again."""
        _ip("-n", self._switch, "link", "set", self._port, "up")


class Neighbour:
    """A host that is only an address of this machine, and the processes that were started there."""

    def __init__(self, lab: str, number: int) -> None:
        self.name, self.address = f"{lab}-{number}", f"127.77.0.{number}"
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: Sequence[str], env: Mapping[str, str], log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a process that, like all its children, is known by its environment."""
        self._started.append(_popen(command, {**env, MARK: self.name}, log))
        return self._started[-1]

    def answers(self, port: int) -> bool:
        """Whether somebody listens on this port."""
        with socket.socket() as probe:
            return probe.connect_ex((self.address, port)) == 0

    def listen(self) -> socket.socket:
        """A listening socket of this host."""
        return socket.create_server((self.address, 0), backlog=64)

    def pids(self, named: str = "") -> list[int]:
        """The processes of this host whose program's name has this in it."""
        mark = f"{MARK}={self.name}".encode()
        pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
        return [pid for pid in pids if named in _program(pid) and mark in _environment(pid)]

    def kill(self) -> None:
        """End all its processes."""
        _kill(self.pids(), self._started)


class Lab:
    """Hosts on a switch, numbered from 1; removed, with all their processes, after the block."""

    def __init__(self, hosts: int) -> None:
        self._name, self._count = f"hf{secrets.token_hex(3)}", hosts
        self._stack = ExitStack()
        self.isolated = can_make_hosts()
        self.hosts: list[Host | Neighbour] = []

    def __enter__(self) -> Self:
        before = signal.signal(
            signal.SIGTERM, lambda *_: sys.exit(143)
        )  # else hosts would keep running
        self._stack.callback(signal.signal, signal.SIGTERM, before)
        if self.isolated:
            self._make_hosts()
        else:
            self.hosts += [Neighbour(self._name, n) for n in range(1, self._count + 1)]
            for host in self.hosts:
                self._stack.callback(host.kill)
        return self

    def _make_hosts(self) -> None:
        Path(RAY).mkdir(exist_ok=True)  # to be mounted over
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hf-lab-")))
        switch = f"{self._name}-sw"
        _ip("netns", "add", switch)
        self._stack.callback(_ip, "netns", "del", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for number in range(1, self._count + 1):
            host = Host(self._name, switch, number, folder)
            self._stack.callback(_ip, "netns", "del", host.name)
            self._stack.callback(host.kill)
            self.hosts.append(host)

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _popen(
    command: Sequence[str], env: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=dict(env),
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _kill(pids: Sequence[int], started: Sequence[subprocess.Popen[bytes]]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in started:
        process.wait(30)


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""
