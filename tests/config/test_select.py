"""How an instance is selected: the keys of `search.select`."""

import pytest

from divergence.errors import InputError
from orchestrator.config.file import config_text, read_config
from orchestrator.config.schema import ChampionSelect, LineagesSelect, config_hash, identity
from support.configs import MINIMAL, config

LINES = "search.select=lineages"


def test_champion_is_the_default_and_has_the_hash_that_it_had() -> None:
    assert config().search.select == ChampionSelect()
    assert "select" not in identity(config())["search"]
    assert config_hash(config(MINIMAL, "search.select=champion")) == config_hash(config())
    assert config_hash(config(MINIMAL, LINES)) != config_hash(config())


def test_lineages_have_keys_with_defaults_and_are_read_back() -> None:
    given = config(MINIMAL, "search.select={kind: lineages, replace_every: [4], half_life: 3}")
    select = given.search.select
    assert isinstance(select, LineagesSelect)
    assert (select.replace_every, select.half_life, select.start.eta0) == ((4,), 3.0, 0.6)
    assert read_config(config_text(given), "again") == given


def test_one_line_is_served_by_default_and_the_hash_is_what_it_was() -> None:
    assert config(MINIMAL, LINES).serve.mean_of == 1
    assert "serve" not in identity(config(MINIMAL, LINES, "serve={mean_of: 1}"))
    given = config(MINIMAL, LINES, "serve={mean_of: 16}")
    assert config_hash(given) != config_hash(config(MINIMAL, LINES))
    assert read_config(config_text(given), "again") == given


@pytest.mark.parametrize(
    ("assignments", "line"),
    [
        (["search.select=lines"], "search.select: 'kind' must be one of champion, lineages"),
        (
            ["search.select={kind: lineages, half_life: 0}"],
            "search.select.half_life: should be greater than 0, but is 0",
        ),
        (
            [LINES, "search.sampler=random"],
            "search.sampler: must be omitted with select: lineages, which draws settings by its "
            "own keys",
        ),
        (
            [LINES, "sustain={eta0: [1], alpha: [1], beta: [1]}", "arms=[{name: a}]"],
            "search.select: must be champion with sustain",
        ),
        (
            ["serve={mean_of: 4}"],
            "serve.mean_of: must be 1 unless search.select is lineages, but is 4",
        ),
        (
            [LINES, "serve={mean_of: 17}"],
            "serve.mean_of: must be at most search.instances, which is 16, but is 17",
        ),
        (
            [LINES, "serve={mean_of: 0}"],
            "serve.mean_of: should be greater than or equal to 1, but is 0",
        ),
    ],
)
def test_mistakes_are_one_line(assignments: list[str], line: str) -> None:
    with pytest.raises(InputError) as error:
        config(MINIMAL, *assignments)
    assert line in str(error.value)
    assert "\n" not in str(error.value)
