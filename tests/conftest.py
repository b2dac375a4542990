"""What all tests share: settings of Ray, which it reads when first imported, and fixtures."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from orchestrator.pool.ray_env import local_environment
from orchestrator.sources.registry import SOURCES
from support.small_run import SmallRun
from support.toy_source import ToySource

local_environment()

# Shared machines stall, so a slow example is not a failure.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("quick", settings.get_profile("patient"), max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    """Before tests are imported: their decorators take the number of examples from here."""
    settings.load_profile("quick" if is_quick(config) else "patient")


def is_quick(config: pytest.Config) -> bool:
    return bool(config.option.markexpr == "not slow")


LONGEST = (
    "cluster/test_hosts.py",
    "trainer/test_rule_contract.py",
    "loop/test_lines_on_ray.py",
    "loop/test_faults.py",
    "commands/test_run.py",
    "report/test_report_command.py",
    "divergence/test_rule_cpus.py",
    "trainer/test_instance.py",
    "storage/test_object_store.py",
    "trainer/test_convert.py",
    "trainer/test_anchor.py",
    "loop/test_run.py",
    "loop/test_output.py",
    "config/test_certificate.py",
    "trainer/test_kernel_oracle.py",
    "report/test_page.py",
    "report/test_sections.py",
    "pool/test_pool.py",
    "pool/test_ray_start.py",
    "lab/test_fuzz_corpus.py",
    "serving/test_hostile_bodies.py",
)
"""The files that take longest. They start first, so that all workers end at about the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files, which workers take one by one."""
    places = {Path(__file__).parent / file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(LONGEST)))


ALL_SLOW = re.compile(r"^pytestmark = (\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The quick lane imports no file whose tests are all slow: PyTorch or Ray takes seconds."""
    quick = is_quick(config) and collection_path.suffix == ".py"
    return True if quick and ALL_SLOW.search(collection_path.read_text()) else None


@pytest.fixture(autouse=True)
def toy_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "toy", ToySource)


@pytest.fixture
def run(tmp_path: Path) -> SmallRun:
    return SmallRun(tmp_path / "run")


@pytest.fixture(scope="session")
def ray_of_two_cores() -> Iterator[None]:
    from orchestrator.pool.ray_start import started_ray

    with started_ray(None, 2, verbose=False):
        yield


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(
    s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> str:
    import s3fs

    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"bucket-{abs(hash(request.node.nodeid))}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}/runs/first"
