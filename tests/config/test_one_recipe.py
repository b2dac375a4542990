"""Every config that we give, and every page, has the same constants of `entropic`."""

import re
from pathlib import Path

import numpy as np
import pytest

from orchestrator.config.file import load_config
from orchestrator.config.rules import kernel_rule
from orchestrator.config.schema import RunConfig
from orchestrator.config.space import draw_width, space_of
from orchestrator.search.sampler import setting_at
from support.configs import config

ROOT = Path(__file__).parents[2]
OTHERS = {"aws.yaml", "gcp.yaml", "raycluster.yaml", "rayjob.yaml", "networkpolicy.yaml",
          "alerts.yaml", "ab-test.yaml", "source.yaml", "rule.yaml",
          "own.yaml", "river.yaml", "torch.yaml"}  # fmt: skip
"""Files that are not configs of runs, or need the user's code or a library."""
CONFIGS = sorted(p for p in (ROOT / "configs").rglob("*.yaml") if p.name not in OTHERS)


def constants(given: RunConfig, name: str) -> tuple[float, ...]:
    """The rule of an arm, with rho0 = 1 and the middle of every range."""
    arm = next(arm for arm in given.arms if arm.name == name)
    space = space_of(given, arm, 1.0)
    return tuple(kernel_rule(arm.rule, setting_at(space, np.full(draw_width(given), 0.5))))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_an_arm_that_is_called_entropic_has_the_constants_of_the_defaults(path: Path) -> None:
    given = load_config(str(path))
    default = config("source: toy\narms: [{name: entropic, rule: entropic}]\n")
    for arm in given.arms:
        if arm.name == "entropic":
            assert constants(given, arm.name) == constants(default, "entropic")


def test_pages_show_the_same_constants() -> None:
    shown = re.compile(r'"entropic", rho=([\d.]+) \* rho0.*dual_step=([\d.]+)')
    pages = [page.read_text() for page in ROOT.rglob("*.md") if ".venv" not in page.parts]
    assert {found for page in pages for found in shown.findall(page)} == {("0.1", "30.0")}
