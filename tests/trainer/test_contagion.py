"""How growth spreads: a chunk whose contagion was built, and every event looked at."""

import math

import numpy as np
import pyarrow as pa
import pytest

from divergence.rules import make_rule
from support.oracle import places
from support.streams import CONFIGS, SINGLE, chunk_of, job_of, some_chunk
from trainer.chunk import Chunk
from trainer.contagion import Company, Contagion, company, contagion, norms_after
from trainer.instance import train
from trainer.kernel import Tables
from trainer.model import Model, vectors_of
from trainer.setting import Setting
from trainer.steps import Steps, vectors_in

NONE = make_rule("none")
HOT = Setting(300.0, 0.01, 0.1)
MADE_UP = [  # age, ad, brand, click
    ("a1", "c1", "b1", 1),  # a1 is almost large, and grows
    ("a9", "c9", "b9", 0),  # nothing to do with it
    ("a1", "c2", "b2", 1),  # the ad and its brand grow beside a1
    ("a2", "c2", "b9", 0),  # a2 grows beside c2
    ("a2", "c3", "b3", 1),  # c3 reaches tau beside a2
    ("a1", "c1", "b1", 1),  # too late
]
FIRST = {"a1": 4.9, "c1": 0.3, "c3": -0.01}
"""Their entries at the start; those of all others are 0."""
STEPS = Setting(5.0, 1.0, 0.1)


def made_up() -> tuple[Model, Chunk, Tables]:
    """Vectors of one entry: one that stands alone, so that age and ad see nothing else."""
    age, ad, brand, click = zip(*MADE_UP, strict=True)
    table = pa.table({"click": np.array(click, np.uint8), "timestamp": range(len(MADE_UP)),
                      "age": age, "city": ["x"] * len(MADE_UP), "hour": ["x"] * len(MADE_UP),
                      "ad": ad, "brand": brand})  # fmt: skip
    model, chunk = Model(CONFIGS[False]), chunk_of(table, SINGLE)
    start = Tables(*(array.copy() for array in model.gather(chunk, 0).tables))
    users, ads = vectors_of(start, model.shape)
    users[:], ads[:] = 0.0, 0.0
    where = places(3, 4, 2)
    alone = next(i for i, at in enumerate(where[0]) if at not in {*where[1], *where[2]})
    for i, (feature, value) in enumerate(chunk.user_keys.pairs):
        users[i, alone] = FIRST.get(value, 0.0) if feature == 0 else 0.0
    for i, value in enumerate(chunk.ad_keys.values):
        ads[i, where[0][alone]] = FIRST.get(value, 0.0)
    return model, chunk, start


def by_hand() -> list[dict[str, float]]:
    """The size of every value's entry after each event, from the formulas."""
    x = {name: FIRST.get(name, 0.0) for *event, _ in MADE_UP for name in event} | {"bias": 0.0}
    sums, after = dict.fromkeys(x, 0.0), []
    for age, ad, brand, click in MADE_UP:
        g = 1 / (1 + math.exp(-(x["bias"] + x[age] * (x[ad] + x[brand])))) - click
        slopes = {age: g * (x[ad] + x[brand]), ad: g * x[age], brand: g * x[age], "bias": g}
        for name, slope in slopes.items():
            sums[name] += abs(slope)
            x[name] -= STEPS.eta0 / (STEPS.alpha + sums[name] ** STEPS.beta) * slope
        after.append({name: abs(value) for name, value in x.items()})
    return after


def named(chunk: Chunk, found: Contagion) -> list[tuple[str, int, float, list[str]]]:
    names = [*chunk.user_keys.values, *chunk.ad_keys.values]
    return [(names[g.vector], g.event, g.norm, [names[s] for s in g.sources])
            for g in found.growths]  # fmt: skip


def test_the_order_of_contagion_is_the_one_that_was_built() -> None:
    model, chunk, start = made_up()
    job, hand = job_of(model), by_hand()
    outcome = train(job, chunk, start, STEPS, NONE).outcome
    assert outcome.divergence is not None
    assert (outcome.divergence.event, outcome.divergence.value) == (4, "c3")
    found = contagion(job, chunk, start, STEPS, NONE, outcome.events_done)
    assert named(chunk, found) == [
        (name, event, pytest.approx(hand[event][name], rel=1e-4), sources)
        for name, event, sources in [
            ("a1", 0, []),
            ("c2", 2, ["a1"]),  # and not beside b2, which does not multiply its gradient
            ("b2", 2, ["a1"]),
            ("a2", 3, ["c2"]),
            ("c3", 4, ["a2"]),
            ("b3", 4, ["a2"]),
        ]
    ]
    assert found.largest == pytest.approx(outcome.divergence.norm)
    assert company(chunk, found.growths, outcome.events_done) == tuple(
        Company(event, True, 0.0) for event in (2, 3, 4)
    )


def test_a_vector_that_is_large_at_the_start_has_grown_before_the_first_event() -> None:
    model, chunk, start = made_up()
    where = [*chunk.user_keys.values, *chunk.ad_keys.values].index("a1")
    vectors_of(start, model.shape)[0][where] *= 2
    found = contagion(job_of(model), chunk, start, STEPS, NONE, 1)
    first, *others = named(chunk, found)
    assert first == ("a1", -1, pytest.approx(9.8), [])
    assert others == []
    assert company(chunk, found.growths, 1) == ()


@pytest.mark.parametrize("multi", [False, True])
@pytest.mark.parametrize("setting", [HOT, Setting(3.0, 1.0, 0.3), Setting(0.05, 1.0, 0.6)])
def test_it_finds_what_looking_at_every_vector_after_every_event_finds(
    multi: bool, setting: Setting
) -> None:
    model, chunk = Model(CONFIGS[multi]), some_chunk(300, multi=multi)
    job, start = job_of(model), model.gather(chunk, 0).tables
    trained = train(job, chunk, start, setting, NONE)
    done = trained.outcome.events_done
    found = contagion(job, chunk, start, setting, NONE, done)
    steps = Steps(job, chunk, start, setting, NONE)
    everything = np.arange(len(chunk.user_keys) + len(chunk.ad_keys))
    norms = [steps.norms(everything)]
    for event in range(done):
        steps.until(event + 1)
        norms.append(steps.norms(everything))
    table = np.where(np.isnan(norms), np.inf, norms)
    assert found.largest == table.max()
    large = table >= np.float32(5)
    first = {int(v): int(large[:, v].argmax()) - 1 for v in np.flatnonzero(large.any(axis=0))}
    assert {growth.vector: growth.event for growth in found.growths} == first
    for growth in found.growths:
        assert growth.norm == table[growth.event + 1, growth.vector]
        beside = {
            v for v in vectors_in(chunk, growth.event) if first.get(int(v), done) < growth.event
        }
        assert set(growth.sources) <= beside
    for mine, theirs in zip(steps.tables, trained.tables, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    events = np.unique([0, done // 2, done - 1, len(chunk) - 1])
    sampled = norms_after(Steps(job, chunk, start, setting, NONE), everything, events)
    at_end = np.minimum(events + 1, done)  # it stays as it was when it diverged
    np.testing.assert_array_equal(sampled, np.array(norms)[at_end])


def test_there_are_hot_and_calm_cases_among_them() -> None:
    model, chunk = Model(CONFIGS[False]), some_chunk(300)
    start = model.gather(chunk, 0).tables
    grown = [
        len(contagion(job_of(model), chunk, start, Setting(eta0, 1.0, 0.6), NONE, 300).growths)
        for eta0 in (0.05, 30.0)
    ]
    assert grown[0] == 0 < grown[1]
