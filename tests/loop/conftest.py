from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def ray_of_two_cores() -> Iterator[None]:
    from orchestrator.ray_start import started_ray

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
