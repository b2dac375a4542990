import pytest

from divergence.errors import InputError
from orchestrator.config.file import config_text, read_config
from orchestrator.config.space import space_of
from orchestrator.search.sampler import SearchState, ask, cycle_rng, draw_quantiles

HEAD = "source: simulator\nsustain: {eta0: [1, 10], alpha: [3], beta: [0.4, 0.8]}\n"
ARMS = HEAD + "arms: [{name: a, rule: {name: l2, lam: 0.01}}, {name: b, rule: none}]\n"


def test_every_arm_becomes_one_for_each_setting() -> None:
    config = read_config(ARMS, "run.yaml")
    assert [arm.name for arm in config.arms[:2]] == [
        "a_eta0-1_alpha-3_beta-0.4",
        "a_eta0-1_alpha-3_beta-0.8",
    ]
    assert [arm.family for arm in config.arms] == ["a"] * 4 + ["b"] * 4
    assert config.search.instances == 1


def test_a_resolved_config_reads_back_to_the_same() -> None:
    config = read_config(ARMS, "run.yaml")
    assert read_config(config_text(config), "config.yaml") == config


def test_a_kept_setting_is_what_every_cycle_tries() -> None:
    config = read_config(ARMS, "run.yaml")
    arm = config.arms[2]
    for cycle, caution in ((0, 0), (1, 0), (7, 5)):
        draws = draw_quantiles(config, cycle, cycle_rng(config.seed, cycle))
        state = SearchState(caution=caution)
        (setting,) = ask(config.search, space_of(config, arm, 1.0), state, draws)
        assert (setting.eta0, setting.alpha, setting.beta, setting.lam) == (10, 3, 0.4, 0.01)


@pytest.mark.parametrize(
    ("arms", "line"),
    [
        (
            "arms:\n  - {name: a, rule: {name: l2, lam: {low: 0.1, high: 1}}}\n",
            "run.yaml:4: arms.0.rule.lam (arm a): must be a single number with sustain, but is a "
            "range",
        ),
        (
            "arms:\n  - {name: a}\n  - {name: b, start_from: {arm: a, cycle: 2}}\n",
            "run.yaml:5: arms.1.start_from (arm b): must be omitted with sustain: every arm starts "
            "with a new model",
        ),
    ],
)
def test_what_keeps_an_arm_from_having_one_setting_is_told(arms: str, line: str) -> None:
    with pytest.raises(InputError) as error:
        read_config(HEAD + arms, "run.yaml")
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("grid", "more", "line"),
    [
        ("{eta0: [1, 1.0], alpha: [3], beta: [0.4]}", "", "2: sustain.eta0: values must differ"),
        ("{alpha: [3], beta: [0.4]}", "", "2: sustain: must have either eta0 or eta0_over_alpha"),
        ("{eta0: [1], eta0_over_alpha: [1], alpha: [3], beta: [1]}", "", "2: sustain: must have e"),
        ("{eta0_over_alpha: [1], alpha: [0], beta: [0.4]}", "", "every alpha must be > 0"),
        (
            "{eta0: [1], alpha: [3], beta: [0.4]}",
            "search: {sampler: {kind: adaptive, follow: a}}\n",
            "4: search.sampler.follow: must be omitted",
        ),
        (
            "{eta0: [1], alpha: [3], beta: [0.4]}",
            "publish: {to: place, arm: a}\n",
            "4: publish.arm: must be omitted",
        ),
    ],
)
def test_what_would_make_a_folder_unreadable_is_refused(grid: str, more: str, line: str) -> None:
    text = f"source: simulator\nsustain: {grid}\narms: [{{name: a}}]\n{more}"
    with pytest.raises(InputError, match=line):
        read_config(text, "run.yaml")


def test_large_numbers_are_names_too() -> None:
    grid = "sustain: {eta0: [1000000], alpha: [3], beta: [0.4]}"
    config = read_config(f"source: simulator\n{grid}\narms: [{{name: a}}]\n", "run.yaml")
    assert config.arms[0].name == "a_eta0-1e06_alpha-3_beta-0.4"
    assert read_config(config_text(config), "config.yaml") == config


def test_the_first_step_may_be_given_instead_of_eta0() -> None:
    grid = "sustain: {eta0_over_alpha: [0.1, 1], alpha: [0.3, 3], beta: [0.5]}"
    made = read_config(f"source: simulator\n{grid}\narms: [{{name: a}}]\n", "run.yaml").arms
    found = [(arm.ranges.eta0.choice[0], arm.ranges.alpha.choice[0]) for arm in made]  # type: ignore
    assert found == [(0.03, 0.3), (0.3, 3), (0.3, 0.3), (3, 3)]
    assert made[0].name == "a_eta0-0.03_alpha-0.3_beta-0.5"
