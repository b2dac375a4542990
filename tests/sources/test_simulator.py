"""The simulator as a source: its tables, its purity, and the world's questions and answers."""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from divergence.jit import cache_dir
from orchestrator.sources.protocol import Source
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.source import Simulator
from trainer.events import check_events

CONFIG = SimulatorConfig(preset="stormy", events_per_cycle=3_000, users=20_000, ads=400, seed=5)
FAR = 1_000_000  # 28 years on

CHECKSUMS = """
import sys
from test_simulator import CONFIG, checksum
from orchestrator.sources.simulator.source import Simulator
source = Simulator(CONFIG)
print(*(checksum(source, int(cycle)) for cycle in sys.argv[1:]))
"""


def checksum(source: Simulator, cycle: int) -> str:
    """Of the chunk's bytes as Arrow writes them, and of the truth's."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, source.events(cycle).table.schema) as writer:
        writer.write_table(source.events(cycle).table)
    digest = hashlib.sha256(sink.getvalue())
    digest.update(source.truth(cycle).tobytes())
    return digest.hexdigest()


@pytest.fixture(scope="module")
def source() -> Simulator:
    return Simulator(CONFIG)


def test_it_is_a_source(source: Simulator) -> None:
    as_source: Source = source
    events = as_source.events(3)
    assert events is not None
    assert (events.cycle, dict(events.set_aside)) == (3, {})
    assert "seed 5" in events.origin


def test_the_table_holds_the_spec_and_no_truth(source: Simulator) -> None:
    table, spec = source.events(7).table, source.spec
    weights = [f.weights for f in spec.features if f.weights is not None]
    names = {f.name for f in spec.features} | {"click", "timestamp", *weights}
    assert set(table.column_names) == names
    assert table.schema.field("click").type == pa.uint8()
    assert table.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert len(table) == len(source.truth(7))
    for feature in spec.features:
        kind = table.schema.field(feature.name).type
        assert pa.types.is_dictionary(kind.value_type if feature.multi else kind), feature.name
    assert all(column.null_count == 0 for column in table.columns)


def test_the_trainer_finds_nothing_wrong(source: Simulator) -> None:
    checked = check_events(source.events(11).table, source.spec)
    assert (len(checked.set_aside), checked.reordered) == (0, 0)
    assert len(checked.table) == len(source.events(11).table)


def test_events_lie_in_their_cycle_in_order(source: Simulator) -> None:
    start, end = source.marketplace.span_us(9)
    ticks = source.events(9).table["timestamp"].cast(pa.int64()).to_numpy()
    assert start <= ticks[0]
    assert ticks[-1] < end
    assert np.all(np.diff(ticks) >= 0)
    assert end == source.marketplace.span_us(10)[0]


def test_interests_are_few_distinct_and_weighted(source: Simulator) -> None:
    table = source.events(2).table
    lists, weights = table["interests"].to_pylist(), table["interest_weights"].to_pylist()
    assert {len(topics) for topics in lists} == {1, 2, 3, 4}
    assert all(len(set(topics)) == len(topics) for topics in lists)
    assert [len(topics) for topics in lists] == [len(row) for row in weights]
    assert all(0.25 <= weight <= 1.0 for row in weights for weight in row)


def test_ad_features_are_nested(source: Simulator) -> None:
    """A creative is of one campaign, a campaign of one advertiser, who sells in one category."""
    frame = source.events(4).table.select(["creative", "campaign", "advertiser", "category"])
    rows = {tuple(row.values()) for row in frame.to_pylist()}
    for part in range(3):
        assert len({row[part] for row in rows}) == len({row[part : part + 2] for row in rows})


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits_in_another_process(source: Simulator) -> None:
    cycles = ["0", "500", str(FAR)]
    run = subprocess.run(
        [sys.executable, "-c", CHECKSUMS, *cycles],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={
            "PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), *sys.path)),
            "PYTHONHASHSEED": "77",
            "XDG_CACHE_HOME": str(cache_dir().parent.parent),  # spare it the compiling
        },
    )
    assert run.stdout.split() == [checksum(source, int(cycle)) for cycle in cycles]


def test_a_cycle_does_not_depend_on_those_asked_for_before(source: Simulator) -> None:
    fresh = Simulator(CONFIG)
    for cycle in (499, 501, 3):
        source.events(cycle)
    assert checksum(fresh, 500) == checksum(source, 500)


def test_another_seed_is_another_world(source: Simulator) -> None:
    other = Simulator(CONFIG.model_copy(update={"seed": 6}))
    assert checksum(other, 0) != checksum(source, 0)


def test_the_cost_of_a_cycle_does_not_grow_with_time(source: Simulator) -> None:
    def seconds(cycle: int) -> float:
        begin = time.process_time()
        source.events(cycle)
        return time.process_time() - begin

    near = min(seconds(cycle) for cycle in range(8))
    far = min(seconds(cycle) for cycle in range(FAR, FAR + 8))
    assert far < 3 * near


def test_nothing_is_kept_from_cycle_to_cycle(source: Simulator) -> None:
    world = source.marketplace

    def snapshot() -> tuple[object, ...]:
        kept = [(name, id(value)) for name, value in (vars(source) | vars(world)).items()]
        return kept, [np.asarray(part).tobytes() for part in world._people]

    before = snapshot()
    for cycle in range(20):
        source.events(cycle)
    assert snapshot() == before


def test_the_truth_can_be_asked_of_any_user_ad_and_time(source: Simulator) -> None:
    """An auction in this world: every eligible ad for one visit, and the log's own pairs."""
    world = source.marketplace
    market, visits = world.market(30), world.arrivals(30)
    ads = world.serve(market, len(visits.user))
    assert np.isin(ads, market.eligible).all()
    assert np.array_equal(world.click_probability(market, visits, ads), source.truth(30))

    eligible = market.eligible
    one = world.visits(
        np.repeat(visits.user[:1], len(eligible)), np.repeat(visits.time_us[:1], len(eligible))
    )
    p = world.click_probability(market, one, eligible)
    assert p[np.flatnonzero(eligible == ads[0])[0]] == source.truth(30)[0]
    assert (market.bids(eligible) > 0).all()
    assert p.std() > 0


def test_numbers_out_of_range_are_refused(source: Simulator) -> None:
    world = source.marketplace
    with pytest.raises(IndexError, match=r"user numbers must be in 0\.\.19999, but got 20000"):
        world.visits(np.array([20_000]), np.array([world.start_us]))
    with pytest.raises(IndexError, match=r"ad numbers must be in 0\.\.399, but got -1\.\.-1"):
        world.click_probability(world.market(0), world.arrivals(0, 1), np.array([-1]))


def test_a_market_without_an_eligible_ad_has_no_events() -> None:
    config = CONFIG.model_copy(
        update={"ads": 1, "creatives_per_campaign": 1, "depletion_share": 1.0}
    )
    source = Simulator(config)
    sizes = [len(source.events(cycle).table) for cycle in range(96)]
    assert 0 in sizes
    empty = source.events(sizes.index(0)).table
    assert empty.schema == source.events(0).table.schema
    assert len(source.truth(sizes.index(0))) == 0


def test_hundreds_of_thousands_of_ads() -> None:
    source = Simulator(CONFIG.model_copy(update={"ads": 200_000, "advertisers": 5_000}))
    creatives = source.events(0).table["creative"].combine_chunks()
    assert len(source.marketplace.market(0).campaigns.live) == 50_000
    assert len(creatives.dictionary) > 1_000
    assert len(creatives.dictionary.unique()) == len(creatives.dictionary)
