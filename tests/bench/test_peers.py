"""The peers of the regret benchmark: everything that needs none of their packages."""

import json
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from orchestrator.config.schema import LineagesSelect
from scripts.bench import regret
from scripts.bench.regrets import peers
from scripts.bench.regrets.mean_of import mean_name
from scripts.bench.regrets.methods import DEFAULT, FIXED, METHODS
from scripts.bench.regrets.peer_setup import (
    WORST,
    PeerMember,
    PeerSetup,
    excess,
    is_retained,
    served_by_best,
)
from scripts.bench.regrets.peer_setup import PeerResult as Served
from scripts.bench.regrets.peer_table import FieldResult, peer_tables
from scripts.bench.regrets.peers import INSTALL, PEERS, not_installed, setup_of
from scripts.bench.regrets.results import BenchTask, Result
from scripts.bench.regrets.streams import Size, Stream, open_stream
from scripts.bench.regrets.vw_events import (
    Ids,
    first_chunks,
    fixed_settings,
    progressive,
    vw_lines,
)

TINY = Size(cycles=4, events=300)


@pytest.fixture(scope="module")
def stream() -> Stream:
    return open_stream("stormy", 101, TINY)


@pytest.fixture(scope="module")
def setup(stream: Stream) -> PeerSetup:
    return setup_of(stream, "entropic")


def test_peers_start_with_the_settings_of_the_lines(setup: PeerSetup) -> None:
    assert set(setup.searched) == {"eta0", "alpha", "beta"}
    assert setup.first[0] == LineagesSelect().start.model_dump()
    assert len({tuple(one.values()) for one in setup.first}) == setup.instances == 16


def test_a_setting_stays_within_the_ranges(setup: PeerSetup) -> None:
    setting = setup.setting({"eta0": 1e9, "alpha": 1e-9, "beta": 0.5})
    assert (setting.eta0, setting.alpha, setting.beta) == (30.0, 0.1, 0.5)
    assert setting.rho is not None


def test_a_model_kept_with_the_default_setting_serves_as_the_fixed_one(
    stream: Stream, setup: PeerSetup
) -> None:
    grid = next(method for method in METHODS if method.grid is not None)
    expected = grid.run(stream, "entropic")[DEFAULT]
    model, served = setup.new_model(), []
    for prepared in setup.chunks:
        start = model.gather(prepared)
        served.append(model.served(prepared, start) if model.state.has_champion else None)
        trained = model.train(prepared, start, setup.setting(setup.first[0]))
        assert is_retained(trained)
        model.keep(prepared, start, trained.tables)
    assert served[0] is expected[0] is None
    assert served[1:] == pytest.approx(expected[1:], rel=1e-6)


@pytest.mark.slow
def test_a_member_that_takes_over_a_process_has_seen_nothing(setup: PeerSetup) -> None:
    """One actor of Ray Tune is one trial after the other; models must not pass between them."""
    trial = object.__new__(import_module("scripts.bench.regrets.peer_tune").PeerTrial)
    trial._iteration = 0
    trial.setup(setup.first[0], setup=setup, decode=dict)
    first, again = trial.step()["served"], trial.step()["served"]
    assert again < 0.9 * first  # it has trained on this chunk
    trial.reset_config(setup.first[1])
    assert trial.step()["served"] == first


def test_a_member_continues_from_a_checkpoint(setup: PeerSetup) -> None:
    members = [PeerMember(setup, setup.setting(values)) for values in setup.first[:2]]
    members[0].step(0)
    members[1].load(members[0].save())
    assert members[0].step(1)["served"] == members[1].step(1)["served"]


def test_what_a_chunk_counts_is_relative_and_bounded(setup: PeerSetup) -> None:
    prepared = setup.chunks[0]
    constant = prepared.info.constant_logloss
    assert excess(prepared, constant + 0.25) == pytest.approx(0.25)
    assert [excess(prepared, bad) for bad in (None, np.nan, np.inf, 9.0)] == [WORST] * 4


def test_packages_that_are_missing_are_named_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(package: str) -> str:
        if package in ("optuna", "flaml"):
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(peers, "version", version)
    assert not_installed() == ["optuna", "flaml"]
    shown = CliRunner().invoke(regret.main, ["--peers", "--out", str(tmp_path)])
    assert shown.exit_code == 2
    assert f"needs optuna, flaml: install with {INSTALL}" in shown.output
    assert not list(tmp_path.iterdir())


def test_the_command_shows_peers_beside_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = BenchTask("calm", 101, "none", regret.QUICK)
    served = [None, 0.05, 0.04]
    for method in METHODS:
        path = task.path(tmp_path, method)
        path.parent.mkdir(exist_ok=True)
        means = map(mean_name, method.together)
        own = dict.fromkeys(FIXED if method.grid else (method.name, *means), served)
        path.write_text(json.dumps({"events": [9] * 3, "constant": [0.1] * 3, "served": own}))
    for peer in PEERS:
        result = {"served": [None, 0.06, 0.05], "trainings": 48, "reference": [0.1, 0.05, 0.05]}
        path = peer.path(task, tmp_path)
        path.write_text(json.dumps({"versions": f"{peer.name} 7.7", "result": result}))
    monkeypatch.setattr(peers, "version", lambda package: "1.0")
    arguments = ["--quick", "--stream", "calm", "--rule", "none", "--out", str(tmp_path)]
    shown = CliRunner().invoke(regret.main, [*arguments, "--peers"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "- PB2: PB2 7.7; 16.0 instances a cycle" in shown.output
    assert "| calm | 55.00% | 55.00% (+0.00) | 55.00% (+0.00) | 45.00% (+10.00)" in shown.output
    assert "| calm | 45.00% | 50.00% | +5.00 | 55.00% | 55.00% | +0.00 |" in shown.output


def test_a_learner_of_its_own_is_compared_on_the_chunks_that_it_has_read() -> None:
    searches = {name: [None, 0.08, 0.04] for name in ("champion", "lineages")}
    ours = Result([10] * 3, [0.1] * 3, searches | {name: [0.1] * 3 for name in FIXED})
    results = {peer.name: Served([None, 0.09, 0.08], 48) for peer in PEERS}
    results["ChaCha"] = Served([0.2, 0.09], 10, [0.2, 0.07])
    shown = peer_tables({("calm", 1): FieldResult(ours, results)}, {"PBT": "ray 1"})
    assert "| calm | 10.00% | 30.00% | +20.00 | 20.00% | 0.00% | -20.00 |" in shown


def test_a_peer_that_does_not_finish_is_named_and_left_out() -> None:
    known = {name: [None, 0.08] for name in ("champion", "lineages", *FIXED)}
    results = {peer.name: Served([None, 0.09], 32, [0.1, 0.09]) for peer in PEERS}
    results["PB2"] = Served([], 5, note="not finished within 9 s")
    found = {("calm", 1): FieldResult(Result([10] * 2, [0.1] * 2, known), results)}
    shown = peer_tables(found, {peer.name: "1" for peer in PEERS})
    assert "- PB2: 1; 5.0 instances a cycle; not finished within 9 s" in shown
    assert "| stream | best fixed | champion | lineages | PBT | TPE |" in shown


def test_vw_lines_have_a_namespace_for_each_feature(setup: PeerSetup) -> None:
    chunk = setup.chunks[0].chunk
    assert chunk is not None
    lines = list(vw_lines(chunk, {}))
    assert [line.startswith("1 ") for line in lines] == [bool(click) for click in chunk.click]
    names = "abcdefghijk"[: len(setup.spec.features)]
    assert all([part[0] for part in line.split("|")[1:]] == list(names) for line in lines)
    assert first_chunks(setup.chunks, events=1) == [chunk]


def test_values_keep_their_numbers_from_chunk_to_chunk(setup: PeerSetup) -> None:
    first, second = (one.chunk for one in setup.chunks[:2])
    assert first is not None
    assert second is not None
    ids: Ids = {}
    before = list(vw_lines(first, ids))
    list(vw_lines(second, ids))
    assert list(vw_lines(first, ids)) == before
    assert sorted(ids.values()) == list(range(len(ids)))


def test_predictions_are_scored_as_probabilities() -> None:
    click = np.array([1, 0, 1], np.uint8)
    found = progressive(np.array([0.5, -1.0, 0.0]), click)
    assert found == pytest.approx(-np.log([0.75, 1 - 1e-7, 0.5]).mean())


def test_fixed_settings_of_vw_are_distinct(setup: PeerSetup) -> None:
    found = dict(fixed_settings(setup.spec))
    assert len(found) == 15
    users, ads = len(setup.spec.user), len(setup.spec.ad)
    pairs = {len(one["interactions"]) for one in found.values()}
    assert pairs == {0, users * ads, (users + ads) * (users + ads - 1) // 2}


def test_the_best_trial_of_a_chunk_serves_the_next_one() -> None:
    served = np.array([[0.3, 0.2, 0.1], [0.3, 0.15, 0.4]])
    worth = np.array([[0.0, 0.2, 0.1], [0.0, 0.1, 0.1]])
    assert served_by_best(served, worth) == [None, 0.2, 0.4]
