"""The source `python`: rows from a class of the user's own, mapped and checked like any other."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from divergence import own_code
from divergence.errors import InputError
from orchestrator.config.file import config_text, load_config, read_config
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.sources.opening import open_source
from orchestrator.sources.protocol import Source

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "configs/own/source.yaml"
CONFIG = """
source: {kind: python, object: "own_events:Source", max_broken_share: 0.5, %s}
features: {user: [age], ad: [campaign], timestamp: null}
arms: [{name: a}]
"""
ROWS = "class Source:\n    def events(self, cycle):\n        return {} if cycle == 0 else None\n"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    own_code.allow([tmp_path])
    yield tmp_path
    own_code.allow([])


def opened(config: RunConfig, run_uri: str | None = None) -> Source:
    return open_source(config.source, feature_spec(config.features), run_uri)


def of_class(folder: Path, text: str, more: str = "") -> Source:
    (folder / "own_events.py").write_text(text)
    own_code.allow([folder])
    return opened(read_config(CONFIG % more, "c"), str(folder))


def test_the_example_reads_sqlite(tmp_path: Path) -> None:
    """With its mapping: bins, a click rule, a time unit; and any cycle in any order."""
    database = tmp_path / "events.db"
    with sqlite3.connect(database) as db:
        db.execute("CREATE TABLE impressions (time, user_age, gender, campaign, clicked)")
        rows = [(1.7e9 + i * 60, 20 + i, "f", i % 3, "yes" if i % 5 == 0 else "no")
                for i in range(40)]  # fmt: skip
        db.executemany("INSERT INTO impressions VALUES (?, ?, ?, ?, ?)", rows)
    own_code.allow([EXAMPLE.parent])
    config = load_config(str(EXAMPLE), (f"source.options.database={database}",))
    source = opened(config)
    sizes, clicks = [], 0
    for cycle in (2, 1, 0):
        events = source.events(cycle)
        assert events is not None
        sizes.append(len(events.table))
        clicks += sum(events.table["click"].to_pylist())
    assert (sizes, clicks, source.events(3)) == ([10, 15, 15], 8, None)
    first = events.table.slice(0, 1).to_pylist()[0]
    assert (first["age"], first["gender"], first["campaign"]) == ("[18,25)", "f", "0")
    text = config_text(config)
    own_code.allow([])
    assert config_text(read_config(text, "c")) == text  # readable without the code


@pytest.mark.parametrize(
    "rows",
    [
        "[{'age': 3, 'campaign': 'x', 'click': 1}, {'age': 4, 'campaign': 'y', 'click': 0}]",
        "{'age': [3, 4], 'campaign': ['x', 'y'], 'click': [1, 0]}",
    ],
)
def test_rows_may_be_written_in_several_ways(folder: Path, rows: str) -> None:
    source = of_class(folder, ROWS.replace("{}", rows))
    events = source.events(0)
    assert events is not None
    assert events.table.to_pydict() == {"click": [1, 0], "age": ["3", "4"], "campaign": ["x", "y"]}
    assert source.events(1) is None


def test_large_integers_keep_their_digits(folder: Path) -> None:
    ids = [2**63 - 1, 2**63 - 2] * 4
    made = [{"age": 30, "campaign": one, "click": i % 2} for i, one in enumerate(ids)]
    events = of_class(folder, ROWS.format(made)).events(0)
    assert events is not None
    assert events.table["campaign"].to_pylist() == [str(one) for one in ids]


def test_a_broken_row_goes_to_quarantine(folder: Path) -> None:
    rows = "[{'age': 3, 'campaign': 'x', 'click': 1}, {'age': 4, 'campaign': 'y', 'click': 'no'}]"
    rows = rows.replace("'click': 1", "'click': '1'")
    events = of_class(folder, ROWS.replace("{}", rows)).events(0)
    assert events is not None
    assert events.set_aside == {"click is not a number": 1}
    assert '"line": 2' in (folder / "quarantine/cycle-000000.jsonl").read_text()


def test_a_cycle_may_be_empty(folder: Path) -> None:
    events = of_class(folder, ROWS.replace("{}", "[]")).events(0)
    assert events is not None
    assert len(events.table) == 0


@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        ("class Source:\n    pass\n", "", "own_events:Source: must have a method events"),
        (ROWS.replace("{}", "1 / cycle"), "",
         r"own_events:Source.events\(0\): line 3: ZeroDivisionError: division by zero"),
        (ROWS.replace("{}", "5"), "", "cycle 0: must be a pyarrow Table, a pandas DataFrame"),
        (ROWS.replace("{}", "[{'aeg': 1, 'campaign': 2, 'click': 1}]"), "",
         r"own_events:Source cycle 0: no column 'age'; did you mean 'aeg'\?"),
        (ROWS, "options: {databse: x}", "own_events:Source: TypeError: "),
    ],
)  # fmt: skip
def test_mistakes_of_the_class_are_one_line(folder: Path, text: str, more: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        of_class(folder, text, more).events(0)
    assert "\n" not in str(caught.value)


def test_changed_code_is_noticed_and_nothing_runs_unasked(folder: Path) -> None:
    (folder / "own_events.py").write_text(ROWS)
    text = config_text(read_config(CONFIG % "options: {}", "c"))
    (folder / "own_events.py").write_text(ROWS + "# changed\n")
    own_code.allow([folder])
    with pytest.raises(InputError, match="the code of own_events:Source has changed"):
        read_config(text, "c")
    own_code.allow([])
    with pytest.raises(InputError, match=r"own_events:Source is code of your own.*--code FOLDER"):
        opened(read_config(text, "c"))


def test_options_hold_no_secrets() -> None:
    for more in ("options: {password: x}", "options: {uri: 'https://me:pass@host/'}"):
        with pytest.raises(InputError) as caught:
            read_config(CONFIG % more, "c")
        assert "pass@" not in str(caught.value)
