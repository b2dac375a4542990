"""The trainer in a config: its parameters, its rules, and what means nothing with it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from divergence import own_code
from divergence.errors import InputError
from orchestrator.config.file import config_text, load_config, read_config
from orchestrator.config.ranges import Interval
from orchestrator.config.schema import config_hash
from orchestrator.config.space import space_of
from orchestrator.config.trainers import StateTrainerConfig
from support.configs import MINIMAL, config, mistake_lines
from support.trainers import EXAMPLES, own_trainers

OWN = "trainer={kind: python, object: 'my_trainers:Logistic'}"
ARM = "source: toy\narms: [{name: a}]\n"


@pytest.fixture
def own() -> Iterator[None]:
    with own_trainers():
        yield


def test_offset_is_the_default_and_old_configs_keep_their_hash() -> None:
    plain = config()
    assert plain.trainer.kind == "offset"
    assert config_hash(plain) == config_hash(config(MINIMAL, "trainer=offset"))
    assert config_hash(plain) != config_hash(config(ARM, "trainer=torch"))
    written = config_text(plain).replace("trainer:\n  kind: offset\n", "")
    assert config_hash(read_config(written, "old")) == config_hash(plain)


def test_ranges_that_are_left_out_are_the_class_s_own() -> None:
    found = config(ARM, "trainer={kind: river, ranges: {l2: {low: 0.1, high: 1}}}")
    assert isinstance(found.trainer, StateTrainerConfig)
    assert found.trainer.ranges == {
        "step": Interval(low=0.003, high=0.3), "l2": Interval(low=0.1, high=1.0)
    }  # fmt: skip
    assert list(space_of(found, found.arms[0], 1.0)) == ["step", "l2"]
    assert read_config(config_text(found), "again") == found


def test_an_arm_without_a_rule_has_none_where_the_trainer_knows_no_rule() -> None:
    assert config(ARM, "trainer=river").arms[0].rule.name == "none"
    assert config(ARM, "trainer=torch").arms[0].rule.name == "holdfast"


@pytest.mark.usefixtures("own")
def test_a_class_of_the_user_s_own_is_recorded_and_read_without_it() -> None:
    found = config(ARM, OWN)
    text = config_text(found)
    own_code.allow([])
    unseen = read_config(text, "run")
    assert config_hash(unseen) == config_hash(found)
    own_code.allow([EXAMPLES])
    with pytest.raises(InputError, match=r"the code of my_trainers:Logistic has changed"):
        read_config(text.replace(str(found.trainer.model_dump()["code"]), "f" * 64), "run")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("trainer=tourch", "trainer: 'kind' must be one of offset, torch, river, python "
         '(did you mean torch?), but is "tourch"'),
        ("trainer={kind: river, ranges: {stp: 1}}",
         "trainer: ranges: must name its parameters, step, l2, but has stp (did you mean step?)"),
        ("model.overlap=3", "model.overlap: must be omitted with trainer river"),
        ("search.ranges.eta0=3", "search.ranges.eta0: must be omitted with trainer river"),
        ("search.sampler={kind: adaptive, follow: a}",
         "search.sampler.follow: must be omitted with trainer river"),
        ("search.select={kind: lineages, start: {eta0: 3}}",
         "search.select.start: must be omitted with trainer river"),
        ("arms.0.ranges={eta0: 3}", "arms.0.ranges (arm a): must be omitted with trainer river"),
        ("arms.0.start_from={run: x}",
         "arms.0.start_from.run (arm a): must be omitted with trainer river"),
        ("arms.0.rule=entropic",
         "arms.0.rule (arm a): must be none with trainer river, but is entropic"),
        ("publish={to: x}", "publish: must be omitted with trainer river"),
        ("sustain={eta0: [1], alpha: [1], beta: [1]}",
         "sustain: must be omitted with trainer river"),
    ],
)  # fmt: skip
def test_what_means_nothing_is_a_mistake_of_one_line(more: str, expected: str) -> None:
    given = (more,) if more.startswith("trainer") else ("trainer=river", more)
    [line] = mistake_lines(ARM, *given)
    assert expected in line


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("", "the class must have parameters = {name: (low, high)}"),
        ("parameters = {'eta0': (1, 2)}", "a parameter cannot be called eta0"),
        ("parameters = {'step': (2, 1)}", "low <= high must hold"),
    ],
)
def test_a_class_with_wrong_parameters_is_refused(tmp_path: Path, body: str, expected: str) -> None:
    (tmp_path / "mine.py").write_text(f"class Mine:\n    {body or 'pass'}\n")
    own_code.allow([tmp_path])
    assert expected in mistake_lines(ARM, "trainer={kind: python, object: 'mine:Mine'}")[0]


def test_code_of_the_user_s_own_runs_only_where_its_folder_is_named() -> None:
    with pytest.raises(InputError, match=r"own.yaml: trainer: my_trainers:Logistic is code of"):
        load_config(str(EXAMPLES / "own.yaml"))
