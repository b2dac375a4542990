"""The files for clouds and monitoring, checked without either."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml

from orchestrator.config.file import load_config
from support.kuberay import check_manifest

CONFIGS = Path(__file__).parents[2] / "configs"
CLUSTER = CONFIGS / "cluster"


def load(name: str, *switched_on: str) -> dict[str, Any]:
    """A file; with "tls" switched on as the README says, sed -i 's/# tls: //', or "private"."""
    text = (CLUSTER / name).read_text()
    for part in switched_on:
        text = text.replace(f"# {part}: ", "")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def check_as_ray_up_does(given: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(copy.deepcopy(given)))


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_ray_up_accepts_the_config(cloud: str) -> None:
    given = load(f"{cloud}.yaml")
    check_as_ray_up_does(given)
    with pytest.raises(Exception, match="max_wrokers"):
        check_as_ray_up_does(given | {"max_wrokers": 1})


@pytest.mark.parametrize(
    ("cloud", "provider", "size"),
    [
        ("aws", {"type", "region", "availability_zone", "cache_stopped_nodes"}, "InstanceType"),
        ("gcp", {"type", "region", "availability_zone", "project_id"}, "machineType"),
    ],
)
def test_what_ray_does_not_check(cloud: str, provider: set[str], size: str) -> None:
    """Its schema lets anything stand under provider and node_config."""
    given = load(f"{cloud}.yaml")
    assert set(given["provider"]) == provider
    head, worker = (given["available_node_types"][name] for name in ("head", "worker"))
    own = {"aws": {"BlockDeviceMappings"}, "gcp": {"disks"}}[cloud] | {size}
    spot = {"aws": {"InstanceMarketOptions"}, "gcp": {"scheduling"}}[cloud]
    assert set(head["node_config"]) == own  # on demand
    assert set(worker["node_config"]) == own | spot
    assert head["resources"] == {"CPU": 0}
    assert "-e RAY_AUTH_MODE=token" in given["docker"]["run_options"]
    assert given["file_mounts"]["/home/ray/.ray/auth_token"] == "~/.ray/auth_token"
    (start,) = [c for c in given["head_start_ray_commands"] if "--head" in c]
    assert "--dashboard-host=127.0.0.1" in start
    assert not re.search(r"[0-9a-f]{32}", (CLUSTER / f"{cloud}.yaml").read_text())  # no token


def test_ray_up_accepts_a_private_subnet() -> None:
    given = load("aws.yaml", "private")
    check_as_ray_up_does(given)
    assert given["provider"]["use_internal_ips"] is True
    head, worker = (
        given["available_node_types"][name]["node_config"] for name in ("head", "worker")
    )
    for node in (head, worker):
        assert (node["SubnetIds"], node["SecurityGroupIds"]) == (["SUBNET"], ["SECURITY-GROUP"])
    assert head["IamInstanceProfile"] == {"Arn": "INSTANCE-PROFILE-ARN"}
    assert "IamInstanceProfile" not in worker, "workers need no permissions"


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_ray_up_accepts_the_config_with_tls(cloud: str) -> None:
    given = load(f"{cloud}.yaml", "tls")
    check_as_ray_up_does(given)
    options = [o.removeprefix("-e ").split("=") for o in given["docker"]["run_options"]]
    environment = dict(option for option in options if option[0].startswith("RAY_"))
    files = {environment[f"RAY_TLS_{name}"] for name in ("SERVER_CERT", "SERVER_KEY", "CA_CERT")}
    assert files == {f"/home/ray/tls/{name}" for name in ("tls.crt", "tls.key", "ca.crt")}
    assert environment["RAY_USE_TLS"] == "1"
    script, folder = given["setup_commands"][0].removeprefix("sh ").split()
    assert (CLUSTER.parent.parent / given["file_mounts"][script]).is_file()
    assert folder in given["file_mounts"]


@pytest.mark.parametrize("name", ["raycluster.yaml", "rayjob.yaml"])
def test_kubernetes_manifests_with_tls_are_strictly_valid(name: str) -> None:
    manifest = load(name, "tls")
    check_manifest(manifest)
    assert manifest["spec"].get("rayClusterSpec", manifest["spec"])["tlsOptions"] == {}


@pytest.mark.parametrize("name", ["raycluster.yaml", "rayjob.yaml", "networkpolicy.yaml"])
def test_kubernetes_manifests_are_strictly_valid(name: str) -> None:
    check_manifest(load(name))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("spec", "rayClusterSpec", "authOptions", "mode"), "tokn"),
        (("spec", "rayClusterSpec", "authOptions", "mod"), "token"),
        (("spec", "rayClusterSpec", "tlsOptions"), {"certificateSecret": "mine"}),
        (("spec", "rayClusterSpec", "enableInTreeAutoscaling"), "yes, please"),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "maxReplica"), 3),
        (("spec", "rayClusterSpec", "workerGroupSpecs", 0, "minReplicas"), 99),
        (("spec", "rayClusterSpec", "headGroupSpec", "rayStartParams", "num-cpus"), 0),
        (("spec", "backoffLimit"), "often"),
        (("spec", "entrypoint"), ""),
        (("kind",), "RayJobb"),
    ],
)
def test_a_typo_in_a_manifest_is_found(path: tuple[str | int, ...], value: object) -> None:
    manifest = load("rayjob.yaml")
    inner: Any = manifest
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(ValueError, match="validation error"):
        check_manifest(manifest)


def test_both_manifests_describe_the_same_cluster() -> None:
    cluster, job = load("raycluster.yaml")["spec"], load("rayjob.yaml")["spec"]["rayClusterSpec"]
    pod = job["headGroupSpec"]["template"]["spec"]
    assert pod.pop("volumes")[0]["configMap"]["name"] == "holdfast-config"
    assert pod["containers"][0].pop("volumeMounts")[0]["mountPath"] == "/etc/holdfast"
    assert cluster == job
    assert cluster["authOptions"] == {"mode": "token"}


def test_alert_rules_are_whole() -> None:
    rules = yaml.safe_load((CONFIGS / "monitoring/alerts.yaml").read_text())["groups"][0]["rules"]
    assert {rule["alert"] for rule in rules} >= {"HoldfastRetainedFractionLow", "HoldfastNoCommit"}
    for rule in rules:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}
        assert set(rule["annotations"]) == {"summary", "remedy"}
        promql_parser.parse(rule["expr"])
    low = next(rule for rule in rules if rule["alert"] == "HoldfastRetainedFractionLow")
    assert "ray_holdfast_retained_fraction[1h]" in low["expr"]
    assert low["expr"].endswith("< 0.8")


def test_the_dashboard_is_whole() -> None:
    board = json.loads((CONFIGS / "monitoring/grafana.json").read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) >= 8
    for panel in board["panels"]:
        for target in panel["targets"]:
            promql_parser.parse(re.sub(r"\$__\w+", "5m", target["expr"]))
            assert target["legendFormat"]


def test_the_example_run_for_clusters_is_a_config() -> None:
    config = load_config(str(CLUSTER / "run.yaml"))
    assert isinstance(config.actors, int)
    assert config.search.instances % config.actors == 0  # no core waits for the last round
    recommended = load_config(str(CONFIGS / "production.yaml"))
    for name in ("features", "serve", "arms", "model", "deadline_s", "retention"):
        assert getattr(config, name) == getattr(recommended, name)
    assert config.search.select == recommended.search.select
