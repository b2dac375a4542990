"""A Ray cluster in the laboratory: a head with the driver, and workers; what ends is restarted."""

import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from threading import Timer
from typing import NamedTuple

from orchestrator.config.file import load_config
from orchestrator.journal.journal import record_path
from orchestrator.storage.open import open_store
from scripts.lab.netlab import Host, Lab, Neighbour

ROOT = Path(__file__).parents[2]
QUICK_TO_NOTICE = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}
NODE = ["--block", "--disable-usage-stats", "--object-store-memory", str(200 * 2**20)]
RAYLET, TRAINER = "raylet/raylet", "ray::Trainer"


class Ports(NamedTuple):
    """Where the head answers."""

    ray: int
    dashboard: int
    metrics: int


class LabCluster:
    """The first host is the head and trains nothing; each other host has `cores` cores."""

    def __init__(self, lab: Lab, folder: Path, config: Path, out: str, cores: int = 1) -> None:
        """`out` is the run folder, a path or a URI."""
        self.head, *self.workers = lab.hosts
        self._cores = cores
        self.ports = Ports(6379, 8265, 8080) if lab.isolated else Ports(*free_ports(3))
        self._temp = [] if lab.isolated else ["--temp-dir", str(folder / "ray")]
        self.folder, self.out, self._config = folder, out, config
        self._last_arm = load_config(str(config)).arms[-1].name
        self._cycles = 0
        self.log = folder / "lab.log"
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        quiet = {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT)}
        self.env = os.environ | QUICK_TO_NOTICE | token | quiet
        self.driver: subprocess.Popen[bytes] | None = None
        self.driver_env: dict[str, str] = {}
        self.exits: list[int] = []
        """The exit codes of drivers that ended while nobody asked them to."""
        self._healing: list[Timer] = []

    # -- what runs ------------------------------------------------------------------------------

    def tend(self) -> None:
        """Start again whatever has ended, as a cloud and a job's supervisor would."""
        if not self.head.pids(RAYLET):
            self.head.kill()
            ray, dashboard, metrics = map(str, self.ports)
            own = ["--head", "--port", ray, "--num-cpus", "0", "--dashboard-port", dashboard,
                   "--dashboard-host", self.head.address, *self._temp]  # fmt: skip
            self._start_node(self.head, [*own, "--metrics-export-port", metrics])
            wait_for(lambda: self.head.answers(self.ports.ray) and self.head.pids(RAYLET) != [], 60)
        for host in self.workers:
            if not host.pids(RAYLET) and not host.pids(sys.executable):
                host.kill()
                self._start_node(host, ["--address", self.address, "--num-cpus", str(self._cores)])
        if self.driver is None or self.driver.poll() is not None:
            if self.driver is not None:
                self.exits.append(self.driver.returncode)
            self.driver = self.start_driver()

    @property
    def address(self) -> str:
        """Where the cluster answers."""
        return f"{self.head.address}:{self.ports.ray}"

    def start_driver(self) -> subprocess.Popen[bytes]:
        """`holdfast run` on the head, with the code of PYTHONPATH, which it ships."""
        run = [sys.executable, "-P", "-m", "orchestrator", "run", str(self._config)]
        where = ["--out", self.out, "--address", self.address, "--ship"]
        command = [*run, *where, "--json", "--log", "-"]
        return self.start(self.head, command, None, **self.driver_env)

    def stop(self) -> int:
        """End the run after its cycle; gives the driver's exit code."""
        assert self.driver is not None
        self.driver.send_signal(signal.SIGINT)
        return self.driver.wait(120)

    def _start_node(self, host: Host | Neighbour, options: list[str]) -> None:
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", *NODE]
        if isinstance(host, Neighbour):  # its agent, too, would be on the loopback of all
            options = [*options, "--dashboard-agent-listen-port", str(free_ports(1)[0])]
        self.start(host, [*ray, "--node-ip-address", host.address, *options])

    def start(
        self, host: Host | Neighbour, command: list[str], log: Path | None = None, **env: str
    ) -> subprocess.Popen[bytes]:
        """Start a command on a host."""
        with (log or self.log).open("ab") as file:
            return host.start(command, self.env | env, file)

    # -- what is seen ---------------------------------------------------------------------------

    def committed(self) -> int:
        """How many cycles the journal has. Looks only for those since the last call."""
        store = open_store(self.out)
        with suppress(FileNotFoundError):
            while True:
                store.open(record_path(self._last_arm, self._cycles)).close()
                self._cycles += 1
        return self._cycles

    def trainers(self) -> list[int]:
        """The trainer processes that are up on each worker."""
        return [len(host.pids(TRAINER)) for host in self.workers]

    def time_until(self, done: Callable[[], bool], limit_s: float = 240) -> float:
        """Tend the cluster until it is done; the seconds that took."""
        began = time.monotonic()

        def look() -> bool:
            self.tend()
            return done()

        wait_for(look, limit_s)
        return time.monotonic() - began

    def all_train(self) -> bool:
        """Whether every core of the workers trains, and they can be reached."""
        trains = all(count == self._cores for count in self.trainers())
        return trains and not any(timer.is_alive() for timer in self._healing)

    def heal_after(self, seconds: float, heal: Callable[[], None]) -> None:
        """End a fault by itself."""
        self._healing = [timer for timer in self._healing if timer.is_alive()]
        self._healing.append(Timer(seconds, heal))
        self._healing[-1].start()

    def wait_until_healed(self) -> None:
        """Return once all such faults have ended."""
        for timer in self._healing:
            timer.join()

    # -- what happens ---------------------------------------------------------------------------

    def kill_trainer(self, chance: random.Random) -> str:
        """A trainer process dies."""
        pid = self._any_trainer(chance)
        send_signal(pid, signal.SIGKILL)
        return f"trainer {pid} killed"

    def pause_trainer(self, chance: random.Random) -> str:
        """A trainer process stands still for a moment."""
        return f"trainer {self._pause(self._any_trainer(chance), chance)}"

    def pause_driver(self, chance: random.Random) -> str:
        """The driver stands still for a moment."""
        assert self.driver is not None
        return f"driver {self._pause(self.driver.pid, chance)}"

    def _any_trainer(self, chance: random.Random) -> int:
        """One of the trainer processes, as soon as there is one."""
        pids: list[int] = []

        def look() -> bool:
            pids.extend(pid for host in self.workers for pid in host.pids(TRAINER))
            return bool(pids)

        self.time_until(look)
        return chance.choice(pids)

    def _pause(self, pid: int, chance: random.Random) -> str:
        seconds = chance.uniform(0.2, 3)
        send_signal(pid, signal.SIGSTOP)
        self.heal_after(seconds, partial(send_signal, pid, signal.SIGCONT))
        return f"{pid} paused for {seconds:.1f} s"

    def kill_node(self, chance: random.Random) -> str:
        """A worker host dies; another takes its place."""
        host = chance.choice(self.workers)
        host.kill()
        return f"node {host.address} killed, a new one added"

    def cut_link(self, chance: random.Random) -> str:
        """A worker host cannot be reached for a while: shorter or longer than Ray waits."""
        host, seconds = chance.choice(self.workers), chance.choice([3, 15])
        assert isinstance(host, Host), "links of this lab's hosts cannot be cut"
        host.cut()
        self.heal_after(seconds, host.heal)
        return f"link of {host.address} cut for {seconds} s"

    def kill_head(self, chance: random.Random) -> str:
        """The head dies, and with it the driver and the cluster; a new cluster starts."""
        for host in (self.head, *self.workers):
            host.kill()
        self.driver = None
        return "head killed, the run resumed on a new cluster"

    def kill_driver(self, chance: random.Random) -> str:
        """The driver dies; its supervisor starts it again."""
        assert self.driver is not None
        self.driver.kill()
        self.driver.wait()
        self.driver = None
        return "driver killed"

    def second_driver(self, chance: random.Random) -> str:
        """A second driver starts the same run: it is refused, and the first keeps training."""
        second = self.start_driver()
        assert second.wait(120) == 2, "a second driver was not refused"
        return "second driver started: refused"


def send_signal(pid: int, number: int) -> None:
    """Signal a process, if it still exists."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_for(done: Callable[[], bool], limit_s: float) -> None:
    """Look often; TimeoutError where it takes too long."""
    end = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > end:
            raise TimeoutError(f"not done after {limit_s:.0f} s")
        time.sleep(0.2)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("", 0))
        return [probe.getsockname()[1] for probe in probes]
