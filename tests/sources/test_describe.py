"""Looking at a stream: counts by hand, tables, JSON and pictures."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from divergence.errors import InputError
from orchestrator.commands import describe as command
from orchestrator.sources.describe.summary import FeatureCycle, describe
from orchestrator.sources.protocol import Events
from support.event_files import rows, write
from trainer.features import Feature, FeatureSpec


class Listed:
    """A source of tables that are given."""

    spec = FeatureSpec((Feature("age"),), (Feature("tags", multi=True),), timestamp=None)

    def __init__(self, *cycles: list[tuple[int, object, list[str] | None]]) -> None:
        self._cycles = cycles

    def events(self, cycle: int) -> Events | None:
        if cycle >= len(self._cycles):
            return None
        clicks, ages, tags = (list(c) for c in zip(*self._cycles[cycle], strict=True)) \
            if self._cycles[cycle] else ([], [], [])  # fmt: skip
        table = pa.table(
            {
                "click": pa.array(clicks, pa.uint8()),
                "age": pa.array(ages),
                "tags": pa.array(tags, pa.list_(pa.string())),
            }
        )
        return Events(cycle, table, f"cycle {cycle}", {"odd": cycle} if cycle else {})


STREAM = Listed(
    [(1, 3, ["a", "b"]), (0, 3, ["a"])],
    [(0, 4, []), (1, None, ["c", ""])],
    [],
    [(0, 3, ["c"]), (1, 5, None)],
)


def test_counts() -> None:
    found = describe(STREAM, 10)
    assert (found.events, found.clicks, found.ended) == (6, 3, True)
    assert found.set_aside == {"odd": 6}
    age, tags = found.features
    assert (age.side, age.cardinality, age.missing) == ("user", 3, 1)
    assert (tags.side, tags.cardinality, tags.missing) == ("ad", 3, 2)
    assert tags.values_per_event == 5 / 6
    assert age.cycles == (
        FeatureCycle(1, 1, 0),
        FeatureCycle(1, 1, 1),
        FeatureCycle(0, 0, 0),
        FeatureCycle(2, 1, 1),
    )
    assert tags.cycles == (
        FeatureCycle(2, 2, 0),
        FeatureCycle(1, 1, 2),
        FeatureCycle(0, 0, 0),
        FeatureCycle(1, 0, 0),
    )
    assert [(v.value, v.share, v.ctr) for v in age.top] == [
        ("3", 0.5, 1 / 3),
        ("4", 1 / 6, 0.0),
        ("5", 1 / 6, 1.0),
    ]
    assert [v.value for v in tags.top] == ["a", "c", "b"]


def test_as_far_as_it_was_looked_at() -> None:
    found = describe(STREAM, 2)
    assert (len(found.cycles), found.ended) == (2, False)
    assert describe(Listed(), 5).events == 0


@pytest.fixture
def config(tmp_path: Path) -> Path:
    write(tmp_path / "events.csv", rows(40))
    with (tmp_path / "events.csv").open("a") as file:
        file.write("broken\n")
    path = tmp_path / "config.yaml"
    path.write_text(
        f"""
source: {{kind: files, path: {tmp_path}/events.csv, cut: {{events: 5}}, max_broken_share: 1,
          timestamp: {{unit: s}}}}
features: {{user: [age], ad: [{{name: ad}}]}}
arms: []
"""
    )
    return path


def test_the_command_prints_tables(config: Path) -> None:
    result = CliRunner().invoke(command.command, [str(config)])
    assert result.exit_code == 0, result.exception
    lines = result.output.splitlines()
    assert lines[0] == "40 events in 9 cycles (the complete stream), CTR 50.00%, 1 rows set aside"
    assert lines[1] == "  set aside: 1 of wrong number of fields"
    assert any("20 (35%, 50.0%), 21 (32%, 53.8%)" in line for line in lines)
    few = CliRunner().invoke(command.command, [str(config), "--cycles", "2"])
    assert few.output.startswith(
        "10 events in the first 2 cycles (--cycles N for more), CTR 50.00%"
    )
    assert sorted(p.name for p in config.parent.iterdir()) == ["config.yaml", "events.csv"]


def test_the_command_prints_json(config: Path) -> None:
    result = CliRunner().invoke(command.command, [str(config), "--json"])
    found = json.loads(result.output)
    assert (found["events"], found["clicks"], found["ended"]) == (40, 20, True)
    assert found["features"][1]["cardinality"] == 40
    assert found["cycles"][8]["set_aside"] == {"wrong number of fields": 1}


@pytest.mark.parametrize(
    ("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_the_command_draws(config: Path, suffix: str, start: bytes) -> None:
    picture = config.parent / "pictures" / f"stream.{suffix}"
    result = CliRunner().invoke(command.command, [str(config), "--picture", str(picture)])
    assert result.exit_code == 0, result.exception
    assert result.output.endswith(f"picture: {picture}\n")
    assert picture.read_bytes().startswith(start)


@pytest.mark.parametrize("text", ["", "timestamp,click,age,ad\n"])
def test_a_source_without_events_is_an_error(config: Path, text: str) -> None:
    (config.parent / "events.csv").write_text(text)
    for options in ([], ["--json"], ["--picture", str(config.parent / "stream.svg")]):
        result = CliRunner().invoke(command.command, [str(config), *options])
        assert isinstance(result.exception, InputError)
        assert str(result.exception) == f"{config}: source: must have events, but has none"
        assert result.output == ""


def test_a_followed_folder_is_looked_at_without_waiting(config: Path) -> None:
    text = config.read_text().replace("files", "follow").replace("events.csv, cut: {events: 5}", "")
    config.write_text(text.replace("{unit: s}", "{unit: s}, settle_s: 0"))
    result = CliRunner().invoke(command.command, [str(config)])
    assert isinstance(result.exception, InputError)
    (config.parent / "config.yaml").rename(config.parent / "_config.yaml")
    result = CliRunner().invoke(command.command, [str(config.parent / "_config.yaml")])
    assert result.output.startswith("40 events in 1 cycle (the complete stream)"), result.exception


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("source: [", "not YAML"),
        ("features: {user: [a], ad: [b]}", "source: missing: this key is required"),
        (
            "source: {kind: files, cut: {events: 3}}\nfeatures: {user: [a], ad: [b]}",
            "config.yaml:1: source.path: missing: this key is required",
        ),
        (
            "source: {kind: file}\nfeatures: {user: [a], ad: [b]}",
            "one of files, follow, python, simulator",
        ),
    ],
)
def test_config_mistakes_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    result = CliRunner().invoke(command.command, [str(path)])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_picture_of_no_known_kind(config: Path) -> None:
    result = CliRunner().invoke(command.command, [str(config), "--picture", "stream.gif"])
    assert str(result.exception) == "--picture stream.gif: the name must end in .png, .svg, .pdf"


def test_no_config(tmp_path: Path) -> None:
    result = CliRunner().invoke(command.command, [str(tmp_path / "none.yaml")])
    assert (
        str(result.exception) == f"{tmp_path}/none.yaml: cannot be read: No such file or directory"
    )
