from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def ray_of_two_cores() -> Iterator[None]:
    from orchestrator.pool.ray_start import started_ray

    with started_ray(None, 2, verbose=False):
        yield
