"""A run on three hosts with addresses of their own, and what happens to it there.

Ray has TLS and token authentication there, and the driver ships its code. scripts/lab/soak.py does
more of this, for longer.
"""

import json
import pickle
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.config.file import read_config
from orchestrator.journal.journal import cycles_of
from orchestrator.journal.models import model_config
from orchestrator.pool.ray_start import PACKAGES
from orchestrator.sources.opening import open_source
from orchestrator.storage.open import open_store
from scripts.lab.cluster import ROOT, TRAINER, LabCluster, wait_for
from scripts.lab.compare import bits
from scripts.lab.netlab import Host, Lab
from scripts.lab.tls import tls_environment
from support.runs import go_here
from trainer.chunk import compile_chunk
from trainer.model import Model

pytestmark = pytest.mark.slow

CHANCE = random.Random(7)
FEATURES = "features: {user: [age, gender, device], ad: [campaign, category]}"
CONFIG = (
    "seed: 11\n"
    "source: {kind: follow, path: EVENTS, poll_s: 0.1, settle_s: 0, timestamp: {unit: s}}\n"
    f"{FEATURES}\n"
    "search: {instances: 8}\n"
    "arms: [{name: production, rule: l2}, {name: entropic, rule: entropic}]\n"
)
JOB = (
    "source: {kind: simulator, preset: calm, signal: faint, events_per_cycle: 400, "
    "users: 2000, ads: 100}\n"
    f"{FEATURES}\n"
    "search: {instances: 8}\n"
    "arms: [{name: only, rule: l2}]\n"
)
BULKY = (
    "cycles: 5\n"
    "source: {kind: simulator, preset: calm, events_per_cycle: 30000, ads: 50000}\n"
    "search: {instances: 8}\n"
    "arms: [{name: only, rule: l2}]\n"
)
FETCH = """
import json, sys, urllib.error
from urllib.request import Request, urlopen
try:
    print(urlopen(Request(sys.argv[1], headers=json.loads(sys.argv[2]))).read().decode())
except urllib.error.HTTPError as error:
    print(error.code)
"""
OFTEN = {"RAY_metrics_report_interval_ms": "1000"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    folder = tmp_path_factory.mktemp("c")
    config = folder / "run.yaml"
    (folder / "events").mkdir()
    config.write_text(CONFIG.replace("EVENTS", str(folder / "events")))
    with Lab(3) as lab:
        cluster = LabCluster(lab, folder, config, str(folder / "run"), cores=2)
        sealed = tls_environment(folder, [host.address for host in lab.hosts])
        cluster.env |= OFTEN | sealed | {"PYTHONPATH": telltale_code(folder)}
        try:
            train_until_whole(cluster)
            yield cluster
        except TimeoutError:
            print(cluster.log.read_text()[-5000:])
            raise


def train_until_whole(cluster: LabCluster) -> int:
    """Cycle after cycle, since the pool grows with them; gives the cycles in all."""
    while True:
        cycles = feed(cluster.folder / "events", 1)
        cluster.time_until(lambda wanted=cycles: cluster.committed() == wanted)
        if cluster.all_train():
            return cycles
        time.sleep(0.5)  # a node takes seconds to start, and every cycle is trained again later


def feed(events: Path, cycles: int) -> int:
    """Fill so many cycles more into the folder that the run follows; gives the cycles in all."""
    there = len(list(events.iterdir()))
    for cycle in range(there, there + cycles):
        roll = random.Random(cycle)
        rows = (
            f"{1_704_067_200 + 900 * cycle + i // 4},{roll.randrange(2)},a{roll.randrange(5)},"
            f"g{roll.randrange(2)},d{roll.randrange(3)},c{roll.randrange(20)},k{roll.randrange(4)}"
            for i in range(2000)
        )
        text = "\n".join(("timestamp,click,age,gender,device,campaign,category", *rows, ""))
        (events / "next.tmp").write_text(text)
        (events / "next.tmp").rename(events / f"{cycle:04}.csv")  # whole, or not there
    return there + cycles


def telltale_code(folder: Path) -> str:
    """Our packages; who imports the actors' module notes in `folder` where it came from."""
    for package in PACKAGES:
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / "code" / package, ignore=skip)
    with (folder / "code/orchestrator/pool/trainer_actor.py").open("a") as actor:
        note = f"open(f'{folder}/{{os.getpid()}}.imported', 'w').write(__file__)"
        actor.write(f"\n\n{note}\n")
    return str(folder / "code")


def on(cluster: LabCluster, name: str, *command: str, **env: str) -> subprocess.Popen[bytes]:
    """Start a command on the head; its output goes to a file of this name."""
    (cluster.folder / name).unlink(missing_ok=True)
    return cluster.start(cluster.head, list(command), cluster.folder / name, **env)


def told(cluster: LabCluster, name: str) -> str:
    return (cluster.folder / name).read_text()


@pytest.mark.timeout(900)  # Ray starts six times; usually 100 s
def test_faults_change_no_bit_and_lose_no_commit(cluster: LabCluster, tmp_path: Path) -> None:
    assert cluster.trainers() == [2, 2]  # instances are spread over the nodes
    for pid in (pid for host in cluster.workers for pid in host.pids(TRAINER)):
        imported = (cluster.folder / f"{pid}.imported").read_text()
        assert re.search(
            r"/_ray_pkg_\w+/orchestrator/pool/trainer_actor.py$", imported
        )  # what was shipped
    folder = cluster.folder
    run = [sys.executable, "-m", "orchestrator", "run", str(folder / "run.yaml")]
    holdfast = [*run, "--address", cluster.address]
    other = str(tmp_path / "other")
    wrong = on(cluster, "wrong", *holdfast, "--out", other, RAY_AUTH_TOKEN="f" * 64)
    none = on(cluster, "none", *holdfast, "--out", other + "2", RAY_AUTH_TOKEN="", HOME=other)
    cut = [cluster.cut_link] if isinstance(cluster.head, Host) else []
    for fault in (cluster.kill_trainer, cluster.kill_node, *cut, cluster.kill_driver):
        six_cycles_after(cluster, fault)
    assert "refused" in cluster.second_driver(CHANCE)
    train_until_whole(cluster)
    check_metrics(cluster)
    check_tls(cluster)
    for refused, name in ((wrong, "wrong"), (none, "none")):
        assert refused.wait(120) == 2, told(cluster, name)
        said = told(cluster, name).splitlines()
        refusal = f"holdfast: --address {cluster.address}: cannot connect to a Ray cluster: "
        assert said[-1].startswith(refusal)
        assert "is the token (RAY_AUTH_TOKEN, ~/.ray/auth_token) the cluster's?" in said[-1]
        assert not any("Traceback" in line for line in said)
    six_cycles_after(cluster, cluster.kill_head)
    cycles = train_until_whole(cluster)
    assert cluster.stop() == 130  # and its cores are free
    calm = read_config((folder / "run.yaml").read_text(), "run.yaml", (f"cycles={cycles}",))
    go_here(calm, tmp_path / "calm")
    assert len(bits(cluster.out)) >= 2 * cycles
    assert bits(cluster.out) == bits(str(tmp_path / "calm"))


def six_cycles_after(cluster: LabCluster, fault: Callable[[random.Random], str]) -> None:
    """Six more cycles are committed whatever happens, and nothing that was committed is lost."""
    before = journal(cluster)
    cycles = feed(cluster.folder / "events", 6)
    began = time.monotonic()
    what = fault(CHANCE)
    cluster.time_until(lambda: cluster.committed() == cycles)
    print(f"{what}: six more cycles after {time.monotonic() - began:.1f} s")
    assert before.items() <= journal(cluster).items()


def journal(cluster: LabCluster) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path(cluster.out, "journal").rglob("*.json")}


def check_tls(cluster: LabCluster) -> None:
    """Ray has the certificate for the address, and asks for one in return."""
    trusted = ["-CAfile", cluster.env["RAY_TLS_CA_CERT"], "-verify_return_error"]
    ask = ["openssl", "s_client", "-connect", cluster.address, *trusted]
    on(cluster, "asked", *ask, "-verify_ip", cluster.head.address).wait(100)
    assert "Verify return code: 0 (ok)" in told(cluster, "asked")
    assert "Acceptable client certificate CA names" in told(cluster, "asked")


def check_metrics(cluster: LabCluster) -> None:
    """What the driver exports is what dashboard and alerts ask for."""
    from orchestrator.watch.metrics import OF_ARMS, OF_RUNS, OUTCOMES

    expected = {f"ray_{name}" for name in (*OF_ARMS, *OF_RUNS, OUTCOMES)}
    exported: set[str] = set()

    def all_there() -> bool:
        exported.update(re.findall(r"^ray_holdfast_\w+", scrape(cluster), re.M))
        return expected <= exported

    wait_for(all_there, 120)  # Ray's agent gathers them every few seconds
    assert exported == expected
    for name in ("alerts.yaml", "grafana.json"):
        asked = set(
            re.findall(r"ray_holdfast_\w+", (ROOT / "configs/monitoring" / name).read_text())
        )
        assert asked <= exported


def scrape(cluster: LabCluster) -> str:
    return fetch(cluster, f"http://{cluster.head.address}:{cluster.ports.metrics}/metrics")


def fetch(cluster: LabCluster, url: str, **headers: str) -> str:
    """What is at an address that only the head can reach; where it is refused, the status."""
    on(cluster, "fetched", sys.executable, "-c", FETCH, url, json.dumps(headers)).wait(100)
    return told(cluster, "fetched").strip()


def test_chunk_and_rows_travel_once_to_each_node(cluster: LabCluster, tmp_path: Path) -> None:
    """By the bytes that arrive at hosts on which two trainers read the same."""
    hosts = [host for host in cluster.workers if isinstance(host, Host)]
    if not hosts:
        pytest.skip("hosts of this lab have no wires of their own")
    if cluster.driver and cluster.driver.poll() is None:
        cluster.stop()  # it has all cores
    (tmp_path / "run.yaml").write_text(BULKY)
    run = [sys.executable, "-m", "orchestrator", "run", str(tmp_path / "run.yaml")]
    before = [host.received() for host in hosts]
    where = ["--out", str(tmp_path / "out"), "--address", cluster.address]
    assert on(cluster, "bulky", *run, *where).wait(200) == 0, told(cluster, "bulky")
    needed = bytes_of_all_cycles()
    for host, then in zip(hosts, before, strict=True):
        times = (host.received() - then) / needed
        print(f"{host.address} has received the {needed / 2**20:.0f} MB {times:.2f} times")
        assert 0.7 < times < 1.5  # one that was slow to start has missed a cycle


def bytes_of_all_cycles() -> int:
    """What actors must have to train every cycle of BULKY: its chunk, and its rows."""
    config = read_config(BULKY, "bulky", ())
    source = open_source(config.source, None)
    model, size = Model(model_config(config, source.spec)), 0
    for cycle in range(config.cycles or 0):
        events = source.events(cycle)
        assert events is not None
        chunk = compile_chunk(events.table, source.spec)
        rows = model.gather(chunk, cycle).tables
        size += len(pickle.dumps(chunk)) + len(pickle.dumps(rows))
    return size


def test_a_run_as_a_ray_job_with_the_code_shipped(cluster: LabCluster, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(JOB)
    shipped = {"working_dir": str(ROOT), "env_vars": {"PYTHONPATH": ""},
               "excludes": [".git", "tests", "configs"]}  # fmt: skip
    out = tmp_path / "out"
    print_path = "import orchestrator; print(orchestrator.__file__)"
    run = (
        f"{sys.executable} -c '{print_path}' && {sys.executable} -m orchestrator "
        f"run {tmp_path}/run.yaml --out {out} --set cycles=2 --address auto"
    )
    url = f"http://{cluster.head.address}:{cluster.ports.dashboard}"
    submit = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", url]
    job = [*submit, "--runtime-env-json", json.dumps(shipped), "--", "sh", "-c", run]
    assert fetch(cluster, f"{url}/api/jobs/", Authorization="Bearer " + "f" * 64) == "403"
    assert fetch(cluster, f"{url}/api/jobs/") == "401"
    assert on(cluster, "job", *job).wait(200) == 0, told(cluster, "job")[-3000:]
    assert re.search(r"_ray_pkg_\w+/orchestrator/__init__", told(cluster, "job"))
    assert "complete with 2 cycles" in told(cluster, "job")
    assert cycles_of(open_store(str(out)), "only") == [0, 1]
