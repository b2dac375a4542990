"""A run that begins with the champion of another run."""

import json
import shutil
from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.journal.journal import read_record
from orchestrator.journal.models import model_config
from orchestrator.loop import start_run
from orchestrator.loop.start_run import copy_start, start_texts
from orchestrator.offline.replay import replay
from orchestrator.sources.opening import resolve_spec
from orchestrator.storage.open import open_store
from support.configs import small
from support.runs import go_here

FEW = ("search.instances=2", "source.events_per_cycle=200")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("first") / "run"
    go_here(small("cycles=3", *FEW), where)
    return where


def start(first: Path, *more: str) -> RunConfig:
    arms = f"arms=[{{name: new, rule: entropic, start_from: {{run: {first}, arm: production}}}}]"
    return small("cycles=2", arms, *FEW, *more)


@pytest.mark.parametrize(
    "changes",
    [(), ("features={user: [age, geo, device], ad: [campaign, advertiser]}",)],
    ids=["the same model", "other features"],
)
def test_it_goes_on_from_the_champion_and_can_be_replayed(
    first: Path, tmp_path: Path, changes: tuple[str, ...]
) -> None:
    old = tmp_path / "old"
    shutil.copytree(first, old)
    config, where = start(old, *changes), tmp_path / "run"
    go_here(config.model_copy(update={"cycles": 1}), where)
    shutil.rmtree(old)  # it is not needed any more
    go_here(config, where)
    store = open_store(str(where))
    record = read_record(store, "new", 0)
    assert record.served_logloss is not None
    assert record.outcomes[0].setting.eta0 == champion_step(first)
    assert all(replay(store, "new", cycle, 1).same for cycle in (0, 1))


def test_it_is_said_what_is_kept(first: Path, tmp_path: Path) -> None:
    features = "features={user: [age, geo, device], ad: [campaign, advertiser]}"
    config = start(first, features, "model={overlap: 3}")
    store = open_store(str(tmp_path))
    spec = resolve_spec(config.source, feature_spec(config.features))
    copy_start(store, config, config.arms[0], model_config(config, spec))
    (text,) = start_texts(store, config)
    assert text == (
        f"new starts from {first}, the champion of production after cycle 2: keeps the vectors of "
        "age, device, campaign; drops: gender, category; new: geo, advertiser; overlap 2 -> 3; "
        "rule l2 -> entropic"
    )


def test_a_start_reads_a_model_as_large_as_the_note_says(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of five million vectors has more bytes than are read of a file of unknown size."""
    config, store = start(first), open_store(str(tmp_path))
    spec = resolve_spec(config.source, feature_spec(config.features))
    arm, shape = config.arms[0], model_config(config, spec)
    monkeypatch.setattr(start_run, "MAX_MODEL_BYTES", 100)
    assert len(copy_start(store, config, arm, shape)[0])
    note = tmp_path / "started" / "new.json"
    written = json.loads(note.read_text())
    del written["size"]  # as an earlier version wrote it
    note.write_text(json.dumps(written))
    with pytest.raises(InputError, match="must have at most 100 bytes, but has more"):
        copy_start(store, config, arm, shape)


def champion_step(first: Path) -> float:
    incumbent = read_record(open_store(str(first)), "production", 2).search.incumbent
    assert incumbent is not None
    return incumbent.eta0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("features={user: [hour], ad: [campaign]}", "no user feature in common"),
        ("model.tau=1.0e-3", r"its largest entry must be below model\.tau 0\.001, but is"),
        ("arms.0.start_from.arm=other", "it has no arm 'other'; its arms are production, entropic"),
        ("arms.0.start_from.cycle=9", r"cycle-000009\.json: missing"),
        ("arms.0.start_from.run=/nowhere", "not a run folder"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    first: Path, tmp_path: Path, change: str, reason: str
) -> None:
    with pytest.raises(InputError, match=f"new: cannot start from .*: .*{reason}"):
        go_here(start(first, change), tmp_path / "run")


def test_all_lines_go_on_from_the_champion_and_can_be_replayed(first: Path, tmp_path: Path) -> None:
    lines, where = start(first, "search.select={kind: lineages}"), tmp_path / "run"
    go_here(lines.model_copy(update={"cycles": 1}), where)
    go_here(lines, where)
    store = open_store(str(where))
    record = read_record(store, "new", 0)
    assert record.lineages is not None
    assert record.served_logloss is not None
    assert len(set(record.lineages.served)) == 1  # of the champion that all start with
    assert all(replay(store, "new", cycle, 1).same for cycle in (0, 1))
