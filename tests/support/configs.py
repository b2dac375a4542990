"""Configs to test with."""

import pytest

from divergence.errors import InputError
from orchestrator.config.file import read_config
from orchestrator.config.schema import RunConfig

MINIMAL = "source: toy\narms: [{name: a, rule: l2}, {name: b, rule: entropic}]\n"
SMALL = """
seed: 3
cycles: 4
source: {kind: simulator, preset: stormy, signal: faint, events_per_cycle: 400,
         users: 2000, ads: 100}
features: {user: [age, gender, device], ad: [campaign, category]}
model: {expire_after: 2}
search: {instances: 6}
arms:
  - {name: production, rule: l2}
  - {name: entropic, rule: entropic}
"""
ARMS = "[{name: production, rule: l2}, {name: entropic, rule: entropic}]"


def config(text: str = MINIMAL, *assignments: str) -> RunConfig:
    return read_config(text, "run.yaml", assignments)


def mistake_lines(text: str, *assignments: str) -> list[str]:
    """What a config with mistakes is refused with."""
    with pytest.raises(InputError) as caught:
        read_config(text, "run.yaml", assignments)
    return str(caught.value).splitlines()


def small(*assignments: str) -> RunConfig:
    """A run of seconds on a real Ray."""
    return config(SMALL, *assignments)


def simulated(arms: str = ARMS, instances: int = 16) -> RunConfig:
    """A run of the simulator with its defaults, to make up records of."""
    return config(f"source: simulator\nsearch: {{instances: {instances}}}\narms: {arms}\n")
