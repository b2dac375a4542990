"""A run on three hosts with addresses of their own, and what happens to it there.

scripts/soak.py does more of this, for longer.
"""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import ROOT, LabCluster, wait_for
from netlab import Lab
from soak import CONFIG, bits

from orchestrator.journal import cycles_of
from orchestrator.store import open_store

CHANCE = random.Random(7)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    folder = tmp_path_factory.mktemp("c")
    config = folder / "run.yaml"
    config.write_text(CONFIG)
    with Lab(3) as lab:
        cluster = LabCluster(lab, folder, config, folder / "run")
        try:
            cluster.time_until(lambda: cluster.committed() >= 2 and cluster.whole())
            yield cluster
        except TimeoutError:
            print(cluster.log.read_text()[-5000:])
            raise


def on(cluster: LabCluster, name: str, *command: str, **env: str) -> subprocess.Popen[bytes]:
    """Start a command on the head; its output goes to a file of this name."""
    (cluster.out.parent / name).unlink(missing_ok=True)
    return cluster.start(cluster.head, list(command), cluster.out.parent / name, **env)


def told(cluster: LabCluster, name: str) -> str:
    return (cluster.out.parent / name).read_text()


def test_faults_change_no_bit_and_lose_no_commit(cluster: LabCluster, tmp_path: Path) -> None:
    assert cluster.trainers() == [1, 1]  # instances are spread over the nodes
    holdfast = [sys.executable, "-m", "orchestrator", "run", str(tmp_path / "run.yaml"),
                "--address", cluster.address]  # fmt: skip
    (tmp_path / "run.yaml").write_text(CONFIG)
    other = str(tmp_path / "other")
    wrong = on(cluster, "wrong", *holdfast, "--out", other, RAY_AUTH_TOKEN="f" * 64)
    none = on(cluster, "none", *holdfast, "--out", other + "2", RAY_AUTH_TOKEN="", HOME=other)
    kept: set[str] = set()
    for fault in (cluster.kill_trainer, cluster.kill_node, cluster.kill_driver):
        before = cluster.committed()
        what = fault(CHANCE)
        took = cluster.time_until(lambda wanted=before + 2: cluster.committed() >= wanted)
        print(f"{what}: two more cycles after {took:.1f} s")
        now = {str(path) for path in (cluster.out / "journal").rglob("*.json")}
        assert kept <= now
        kept = now
    assert "refused" in cluster.second_driver(CHANCE)
    took = cluster.time_until(cluster.whole)
    print(f"all workers train again after {took:.1f} s more")
    check_metrics(cluster)
    assert cluster.stop() == 130  # and its cores are free
    for refused, name in ((wrong, "wrong"), (none, "none")):
        assert refused.wait(120) == 2, told(cluster, name)
        said = told(cluster, name).splitlines()
        assert said[-1].startswith(f"holdfast: --address {cluster.address}: no Ray cluster answers")
        assert "is the token (RAY_AUTH_TOKEN, ~/.ray/auth_token) that of the cluster?" in said[-1]
        assert not any("Traceback" in line for line in said)
    calm = tmp_path / "calm"
    cycles = len(cycles_of(open_store(str(cluster.out)), "entropic"))
    alone = [sys.executable, "-m", "orchestrator", "run", str(tmp_path / "run.yaml"),
             "--out", str(calm), "--set", f"cycles={cycles}"]  # fmt: skip
    subprocess.run(alone, check=True, capture_output=True, cwd=ROOT, timeout=200)
    assert bits(cluster.out) == bits(calm)


def check_metrics(cluster: LabCluster) -> None:
    """What the driver exports is what dashboard and alerts ask for."""
    from orchestrator.metrics import OF_ARMS, OF_RUNS, OUTCOMES

    live_only = {"ray_holdfast_lag_seconds"}
    expected = {f"ray_{name}" for name in (*OF_ARMS, *OF_RUNS, OUTCOMES)} - live_only
    exported: set[str] = set()

    def all_there() -> bool:
        exported.update(re.findall(r"^ray_holdfast_\w+", scrape(cluster), re.M))
        return expected <= exported

    wait_for(all_there, 60)  # Ray's agent gathers them every few seconds
    assert exported == expected
    for name in ("alerts.yaml", "grafana.json"):
        asked = set(
            re.findall(r"ray_holdfast_\w+", (ROOT / "configs/monitoring" / name).read_text())
        )
        assert asked <= exported | live_only


def scrape(cluster: LabCluster) -> str:
    url = f"http://{cluster.head.address}:{cluster.ports.metrics}/metrics"
    get = (
        "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"
    )
    on(cluster, "scraped", sys.executable, "-c", get, url).wait(30)
    return told(cluster, "scraped")


def test_a_run_as_a_ray_job_with_the_code_shipped(cluster: LabCluster, tmp_path: Path) -> None:
    one_arm = CONFIG.partition("arms:")[0] + "arms: [{name: only, rule: none}]"  # to compile less
    (tmp_path / "run.yaml").write_text(one_arm.replace("20000", "400"))
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
    assert on(cluster, "refused", *job, RAY_AUTH_TOKEN="f" * 64).wait(120) != 0
    assert "Invalid authentication token" in told(cluster, "refused")
    assert on(cluster, "job", *job).wait(200) == 0, told(cluster, "job")[-3000:]
    assert re.search(r"_ray_pkg_\w+/orchestrator/__init__", told(cluster, "job"))
    assert "complete with 2 cycles" in told(cluster, "job")
    assert cycles_of(open_store(str(out)), "only") == [0, 1]
