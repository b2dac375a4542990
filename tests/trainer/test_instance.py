"""One instance: the outcome it reports, the report of a divergence, and the same bits anywhere."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trainer.instance as instance_module
from divergence.errors import InputError
from divergence.rules import make_rule
from support.oracle import Event, Oracle, OracleSide, log_loss
from support.streams import CONFIGS, SETTING, job_of, some_chunk
from trainer.chunk import Chunk
from trainer.instance import Buffers, Job, check_setting, train, warm_up
from trainer.kernel import EventRows, Tables, train_block
from trainer.model import Model, vectors_of
from trainer.outcome import Outcome, Status, is_useful
from trainer.setting import PARAMETERS, Setting

ROOT = Path(__file__).parent.parent.parent
NONE = make_rule("none")
ENTROPIC = make_rule("entropic", rho=0.1, dual_step=3.0)


def writable(tables: Tables) -> Tables:
    return Tables(*(array.copy() for array in tables))


def digest(tables: Tables) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in tables)).hexdigest()


def bits_of_training(multi: bool, reference: bool) -> str:
    """What another process must find too."""
    model, chunk = Model(CONFIGS[multi]), some_chunk(300, multi=multi)
    start = model.gather(chunk, 0, mu0=ENTROPIC.mu0)
    job = job_of(model, reference=reference)
    done = train(job, chunk, start.tables, SETTING, ENTROPIC)
    return f"{digest(done.tables)} {done.outcome.logloss.hex()}"


# -- against the oracle, from a table of events to the trained vectors --------------------------


def bags(
    slots: EventRows, features: int, single: bool
) -> list[tuple[tuple[tuple[int, float], ...], ...]]:
    made = []
    for first, last in zip(slots.start, slots.start[1:], strict=False):
        event: list[list[tuple[int, float]]] = [[] for _ in range(features)]
        for slot in range(first, last):
            feature = slot - first if single else int(slots.feature[slot])
            event[feature].append(
                (int(slots.row[slot]), 1.0 if single else float(slots.weight[slot]))
            )
        made.append(tuple(tuple(bag) for bag in event))
    return made


def events_of(chunk: Chunk, model: Model) -> list[Event]:
    spec, single = model.config.spec, model.shape.user_slots > 0
    users = bags(chunk.users, len(spec.user), single)
    ads = bags(chunk.ads, len(spec.ad), single)
    return [
        Event(int(click), user, ad) for click, user, ad in zip(chunk.click, users, ads, strict=True)
    ]


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("reference", [False, True])
def test_from_a_table_to_trained_vectors_as_the_oracle_does(multi: bool, reference: bool) -> None:
    """Chunk, model, working set and instance together, over two cycles."""
    model = Model(CONFIGS[multi])
    config = model.config
    for cycle in range(2):
        chunk = some_chunk(120, seed=cycle, multi=multi)
        before = model.gather(chunk, cycle, mu0=ENTROPIC.mu0)
        start = [v.astype(np.float64) for v in vectors_of(before.tables, model.shape)]
        sums = [np.zeros_like(v) for v in start]
        for side, found, total, width in (
            (model.user, before.user_rows, sums[0], model.shape.user),
            (model.ad, before.ad_rows, sums[1], model.shape.ad),
        ):
            known = found >= 0
            kept = side.rows[found[known]].astype(np.float64)
            total[known] = kept[:, 1, :width] + kept[:, 2, :width]
        mus = (before.tables.user_mu, before.tables.ad_mu)
        sides = [
            OracleSide(v, s, m.astype(np.float64)) for v, s, m in zip(start, sums, mus, strict=True)
        ]
        oracle = Oracle(
            model.shape.features,
            config.overlap,
            config.alone,
            *sides,
            eta0=SETTING.eta0,
            alpha=SETTING.alpha,
            beta=SETTING.beta,
            rule="entropic",
            holds=ENTROPIC._asdict(),
            bias=float(model.bias[0]),
            bias_sum=float(model.bias[1]),
        )
        events = events_of(chunk, model)
        logits, bad = oracle.run(events)
        done = train(job_of(model, reference=reference), chunk, before.tables, SETTING, ENTROPIC)
        assert bad == -1
        assert done.outcome.status is Status.RETAINED
        losses = [log_loss(x, e.click) for x, e in zip(logits, events, strict=True)]
        assert done.outcome.logloss == pytest.approx(np.mean(losses), rel=3e-6)
        users, ads = vectors_of(done.tables, model.shape)
        np.testing.assert_allclose(users, oracle.user.theta, rtol=2e-4, atol=5e-6)
        np.testing.assert_allclose(ads, oracle.ad.theta, rtol=2e-4, atol=5e-6)
        np.testing.assert_allclose(done.tables.ad_mu, oracle.ad.mu, rtol=2e-4)
        assert done.tables.bias == pytest.approx([oracle.bias, oracle.bias_sum], rel=1e-4)
        model.scatter(chunk, cycle, before, done.tables)


# -- outcomes -----------------------------------------------------------------------------------


def test_a_retained_instance() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(300)
    start = model.gather(chunk, 0).tables
    before = digest(start)
    done = train(job_of(model), chunk, start, SETTING, NONE, instance=7)
    outcome = done.outcome
    assert (outcome.instance, outcome.setting, outcome.status) == (7, SETTING, Status.RETAINED)
    assert (outcome.events_done, outcome.divergence, outcome.reason) == (300, None, "")
    assert 0 < outcome.logloss < 2
    assert outcome.seconds > 0
    assert outcome.tries == 1
    assert digest(start) == before  # the warm start is everybody's


def test_an_instance_that_is_stopped_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_module, "BLOCK", 50)
    model, chunk = Model(CONFIGS[False]), some_chunk(300)
    start = model.gather(chunk, 0).tables
    looks = iter([False, False, True])
    done = train(job_of(model), chunk, start, SETTING, NONE, stop=lambda: next(looks))
    outcome = done.outcome
    assert (outcome.status, outcome.events_done) == (Status.LATE, 100)
    assert outcome.reason == "stopped after 100 events"
    whole = train(job_of(model), chunk, start, SETTING, NONE)
    assert np.isfinite(outcome.logloss)
    assert outcome.logloss != whole.outcome.logloss


def test_an_instance_stopped_at_once_has_no_log_loss() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(30)
    start = model.gather(chunk, 0).tables
    outcome = train(job_of(model), chunk, start, SETTING, NONE, stop=lambda: True).outcome
    assert (outcome.status, outcome.events_done) == (Status.LATE, 0)
    assert np.isnan(outcome.logloss)


@pytest.mark.parametrize("block", [1, 7, 64, 10_000])
def test_blocks_do_not_show(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(300)
    start = model.gather(chunk, 0, mu0=0.01).tables
    whole = train(job_of(model), chunk, start, SETTING, ENTROPIC)
    monkeypatch.setattr(instance_module, "BLOCK", block)
    parts = train(job_of(model), chunk, start, SETTING, ENTROPIC)
    assert digest(parts.tables) == digest(whole.tables)
    assert parts.outcome.logloss == whole.outcome.logloss


def test_buffers_do_not_show() -> None:
    """Used many times, by larger and smaller instances and by diverged ones."""
    buffers = Buffers()
    for seed, events in ((0, 200), (1, 500), (2, 20), (3, 200)):
        model, chunk = Model(CONFIGS[False]), some_chunk(events, seed=seed, values=3 + events // 9)
        start = model.gather(chunk, 0).tables
        fresh = train(job_of(model), chunk, start, SETTING, NONE)
        for setting in (Setting(500.0, 0.01, 0.0), SETTING):
            used = train(job_of(model), chunk, start, setting, NONE, buffers=buffers)
        assert digest(used.tables) == digest(fresh.tables)
        assert used.outcome.logloss == fresh.outcome.logloss
        assert all(array.ctypes.data % 64 == 0 for array in used.tables)


# -- divergence ---------------------------------------------------------------------------------


def planted(number: float, side: str, feature: int, event: int) -> tuple[Model, Chunk, Tables, str]:
    """A working set with one number in the vector that this event's feature has; its value."""
    model, chunk = Model(CONFIGS[False]), some_chunk(60, values=50)
    tables = writable(model.gather(chunk, 0).tables)
    slots, keys = (chunk.users, chunk.user_keys) if side == "user" else (chunk.ads, chunk.ad_keys)
    row = int(slots.row[slots.start[event] + feature])
    vectors_of(tables, model.shape)[side == "ad"][row, 5] = number
    return model, chunk, tables, keys.values[row]


@pytest.mark.parametrize("number", [40.0, -40.0, 1e30, np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(
    ("side", "feature", "name"), [("user", 2, "hour"), ("ad", 0, "ad"), ("ad", 1, "brand")]
)
def test_a_divergence_names_event_feature_value_and_norm(
    number: float, side: str, feature: int, name: str
) -> None:
    model, chunk, tables, value = planted(number, side, feature, 20)
    slots = chunk.users if side == "user" else chunk.ads
    rows = slots.row.reshape(len(chunk), -1)[:, feature]
    event = int(np.argmax(rows == rows[20]))
    done = train(job_of(model), chunk, tables, Setting(1e-6, 1.0, 0.5), NONE)
    outcome, divergence = done.outcome, done.outcome.divergence
    assert outcome.status is Status.DIVERGED
    assert divergence is not None
    assert (divergence.event, outcome.events_done) == (event, event + 1)
    if np.isfinite(number):
        assert (divergence.feature, divergence.value) == (name, value)
        assert divergence.norm == pytest.approx(abs(number), rel=1e-3)
        shown = f"{divergence.norm:.4g}"
        assert outcome.reason == f"{name}={value} reached {shown} at event {event}"
    else:
        assert not np.isfinite(divergence.norm)


def test_what_is_not_finite_is_named_before_what_is_large() -> None:
    model, chunk, tables, _ = planted(np.nan, "user", 2, 0)
    vectors_of(tables, model.shape)[1][chunk.ads.row[0], 3] = 40.0
    divergence = train(job_of(model), chunk, tables, SETTING, NONE).outcome.divergence
    assert divergence is not None
    assert divergence.event == 0
    assert np.isnan(divergence.norm)


def test_the_missing_value_is_named_as_such() -> None:
    model, chunk = Model(CONFIGS[True]), some_chunk(40, multi=True)
    tables = writable(model.gather(chunk, 0).tables)
    row = chunk.user_keys.values.index("")
    vectors_of(tables, model.shape)[0][row] = 99.0
    outcome = train(job_of(model), chunk, tables, Setting(1e-6, 1.0, 0.5), ENTROPIC).outcome
    assert outcome.divergence is not None
    assert (outcome.divergence.feature, outcome.divergence.value) == ("genres", "")
    assert outcome.reason.startswith("genres=(missing) reached ")


def test_a_bias_that_got_away_is_named() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(10)
    tables = writable(model.gather(chunk, 0).tables)
    tables.bias[0] = np.nan
    divergence = train(job_of(model), chunk, tables, SETTING, NONE).outcome.divergence
    assert divergence is not None
    assert (divergence.event, divergence.feature, divergence.value) == (0, "bias", "")


def test_a_hot_setting_diverges_and_its_rows_are_those_of_the_abort() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(2000)
    start = model.gather(chunk, 0).tables
    done = train(job_of(model), chunk, start, Setting(300.0, 0.01, 0.1), NONE)
    divergence = done.outcome.divergence
    assert divergence is not None
    assert 0 <= divergence.event < 1999
    users, ads = vectors_of(done.tables, model.shape)
    found = [float(np.nanmax(np.abs(v))) for v in (users, ads)]
    assert max(found) == pytest.approx(divergence.norm)
    assert divergence.norm >= 15
    calm = train(job_of(model), chunk, start, SETTING, NONE)
    assert calm.outcome.status is Status.RETAINED


@pytest.mark.parametrize(
    ("tau", "diverges"), [(8.0, True), (np.nextafter(np.float32(8), 9), False)]
)
def test_tau_itself_is_too_much(tau: float, diverges: bool) -> None:
    """A vector that no gradient reaches stays exactly where it is."""
    model, chunk = Model(CONFIGS[False]), some_chunk(1)
    tables = writable(model.gather(chunk, 0).tables)
    tables.user[:] = 0.0
    tables.ad[:] = 0.0
    users, ads = vectors_of(tables, model.shape)
    ads[0, 0] = 8.0  # of a pair whose entries are zero: neither moves
    outcome = train(job_of(model, float(tau)), chunk, tables, SETTING, NONE).outcome
    assert (outcome.status is Status.DIVERGED) == diverges
    assert users.shape[1] == model.shape.user


# -- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "tau", "message"),
    [
        (Setting(0.0, 1.0, 0.5), 15.0, "eta0 must be > 0, but is 0.0"),
        (Setting(-1.0, 1.0, 0.5), 15.0, "eta0 must be > 0, but is -1.0"),
        (Setting(float("inf"), 1.0, 0.5), 15.0, "eta0 must be > 0, but is inf"),
        (Setting(1.0, 0.0, 0.5), 15.0, "alpha must be > 0, but is 0.0"),
        (Setting(1.0, float("nan"), 0.5), 15.0, "alpha must be > 0, but is nan"),
        (Setting(1.0, 1.0, -0.1), 15.0, "beta must be between 0 and 2, but is -0.1"),
        (Setting(1.0, 1.0, 2.5), 15.0, "beta must be between 0 and 2, but is 2.5"),
        (Setting(1.0, 1.0, 0.5), 0.0, "tau must be > 0, but is 0.0"),
    ],
)
def test_a_setting_without_meaning_is_refused(setting: Setting, tau: float, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check_setting(setting, tau)
    assert str(caught.value) == message
    model, chunk = Model(CONFIGS[False]), some_chunk(5)
    with pytest.raises(InputError) as caught:
        train(job_of(model, tau), chunk, model.gather(chunk, 0).tables, setting, NONE)
    assert str(caught.value) == message


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0, 2.0])
def test_the_ends_of_what_is_allowed(beta: float) -> None:
    check_setting(Setting(1e-30, 1e-30, beta), 1e-6)
    model, chunk = Model(CONFIGS[False]), some_chunk(50)
    start = model.gather(chunk, 0).tables
    outcome = train(job_of(model), chunk, start, Setting(0.1, 0.5, beta), NONE).outcome
    assert outcome.status is Status.RETAINED


def test_the_names_of_a_setting() -> None:
    assert PARAMETERS == ("eta0", "alpha", "beta", "rho", "lam", "dual_step")


def test_useful_is_retained_and_better_than_a_constant() -> None:
    def outcome(status: Status, loss: float) -> Outcome:
        return Outcome(0, SETTING, status, loss, 10, 0.1)

    assert is_useful(outcome(Status.RETAINED, 0.4), 0.5)
    assert not is_useful(outcome(Status.RETAINED, 0.5), 0.5)
    assert not is_useful(outcome(Status.RETAINED, float("nan")), 0.5)
    assert not any(is_useful(outcome(s, 0.1), 0.5) for s in Status if s is not Status.RETAINED)


# -- the same bits ------------------------------------------------------------------------------


def test_warming_up_is_done_once() -> None:
    model = Model(CONFIGS[False])
    warm_up(job_of(model), NONE)
    assert warm_up(job_of(model), NONE) == 0.0
    assert warm_up(Job(model.config.spec, model.shape, 3.0, False), NONE) == 0.0


def test_whole_numbers_in_a_setting_compile_nothing_new() -> None:
    """numba would take an int for another type of setting, and compile for seconds."""
    model, chunk = Model(CONFIGS[False]), some_chunk(50)
    start = model.gather(chunk, 0).tables
    real = train(job_of(model, 15.0), chunk, start, Setting(1.0, 2.0, 1.0), NONE)
    bits, known = digest(real.tables), len(train_block.signatures)
    whole = train(job_of(model, 15), chunk, start, Setting(1, 2, 1), NONE)
    assert digest(whole.tables) == bits
    assert len(train_block.signatures) == known


def test_training_twice_gives_the_same_bits() -> None:
    for multi in (False, True):
        assert bits_of_training(multi, True) == bits_of_training(multi, True)
        assert bits_of_training(multi, True) != bits_of_training(multi, False)


@pytest.mark.parametrize("hash_seed", ["0", pytest.param("77", marks=pytest.mark.slow)])
def test_another_process_gives_the_same_bits(hash_seed: str) -> None:
    script = (
        "from test_instance import bits_of_training\n"
        "print(bits_of_training(False, True))\n"
        "print(bits_of_training(True, False))\n"
    )
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", Path(__file__).parent)))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    theirs = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert theirs.stdout.splitlines() == [
        bits_of_training(False, True),
        bits_of_training(True, False),
    ]
