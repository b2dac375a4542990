"""Trainers to test with: OFFSET, the page's example, PyTorch's and River's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from divergence import own_code
from orchestrator.config.file import read_config
from orchestrator.config.rules import kernel_rule
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.config.space import space_of
from orchestrator.journal.models import trainer_of
from orchestrator.loop.lines_arm import line_options
from orchestrator.search.sampler import fitted_to
from orchestrator.sources.opening import open_source
from trainer.contract.trainers import TrainerCase
from trainer.setting import Setting

EXAMPLES = Path(__file__).parents[2] / "configs" / "trainers"
TRAINERS = {
    "offset": "offset",
    "own": "{kind: python, object: 'my_trainers:Logistic', options: {rows: 512},"
    " ranges: {step: {low: 0.01, high: 30}}}",
    "torch": "{kind: torch, dim: 4, rows: 256, optimizer: sgd,"
    " ranges: {step: {low: 0.1, high: 1000}}}",
    "river": "{kind: river, rows: 256, factors: 2, ranges: {step: {low: 0.01, high: 3}}}",
}
TEXT = """
seed: 101
cycles: 5
source: {{kind: simulator, preset: stormy, signal: faint, events_per_cycle: {events},
         users: 2000, ads: 100}}
features: {{user: [age, gender, device], ad: [campaign, category]}}
trainer: {trainer}
search: {{instances: 4}}
arms: {arms}
"""
SMALL_STEPS = Setting(0.3, 3.0, 0.5, others={"step": 0.01})
ARMS = {"torch": "[{name: plain, rule: none}, {name: held, rule: holdfast}]"}


@contextmanager
def own_trainers() -> Iterator[None]:
    """The page's example may be loaded."""
    own_code.allow([EXAMPLES])
    yield
    own_code.allow([])


def config_of(trainer: str, *assignments: str, events: int = 300) -> RunConfig:
    """A small run with this trainer."""
    arms = ARMS.get(trainer, "[{name: only}]")
    text = TEXT.format(trainer=TRAINERS[trainer], arms=arms, events=events)
    return read_config(text, "run.yaml", assignments)


def case_of(trainer: str, *assignments: str) -> TrainerCase:
    """What the contract of trainers is checked with; of the config's last arm."""
    config = config_of(trainer, *assignments, events=600)
    source = open_source(config.source, feature_spec(config.features))
    arm, made = config.arms[-1], trainer_of(config, source.spec)
    events = [source.events(cycle) for cycle in range(2)]
    setting = fitted_to(space_of(config, arm, made.rho0), SMALL_STEPS)
    return TrainerCase(
        made,
        [one.table for one in events if one is not None],
        setting,
        kernel_rule(arm.rule, setting),
        line_options(config, arm, made),
    )
