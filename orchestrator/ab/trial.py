"""One A/B test in the marketplace: users come, champions bid for them, truth clicks, arms learn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from orchestrator.ab.auction import Floats, Numbers, candidates, hold, predicted
from orchestrator.ab.buckets import in_treatment
from orchestrator.ab.config import AbConfig
from orchestrator.ab.counts import Counts, Day, Finished, Trial, total
from orchestrator.ab.tuner import Tuner
from orchestrator.config.schema import feature_spec
from orchestrator.sources.opening import resolve_spec
from orchestrator.sources.simulator.marketplace import Market
from orchestrator.sources.simulator.source import Simulator
from orchestrator.sources.simulator.state import Visits
from orchestrator.sources.simulator.table import Names, ad_columns, event_table, user_columns
from trainer.model import Model
from trainer.vectors import side_vectors

STREAM = 0xA0C710
"""Tells the auction's random numbers from the search's, which have the same seed and cycle."""


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """A cycle's requests as they were sold: the log that arms learn from, and what clicks cost."""

    events: pa.Table
    treated: NDArray[np.bool_]
    clicks: NDArray[np.uint8]
    price_usd: Floats

    def of(self, arm: int) -> NDArray[np.bool_]:
        """The rows of the control (0) or of the treatment (1)."""
        return self.treated if arm else ~self.treated

    def counts(self, arm: int) -> Counts:
        """What an arm has shown, and what came of it."""
        mine = self.of(arm)
        cost = float(self.price_usd[mine & (self.clicks == 1)].sum())
        return Counts(int(mine.sum()), int(self.clicks[mine].sum()), cost)


@dataclass(frozen=True, slots=True, eq=False)
class AdSlots:
    """A cycle's requests before they are sold."""

    users: pa.Table
    eligible: Numbers
    ads: pa.Table
    """What a model sees of the eligible ads."""
    bid_usd: Floats
    candidates: Numbers
    """(requests, candidates), places in `eligible`."""


def run_trial(
    config: AbConfig, seed: int, tell: Callable[[str], None] = lambda _: None
) -> Finished:
    """Run one seed: warm-up, acclimation, and the days that count."""
    tuning = config.tuning(seed)
    spec = resolve_spec(tuning.source, feature_spec(config.features))
    exchange = Exchange(config, seed)
    tuners = tuple(Tuner(tuning, arm, spec) for arm in (config.control, config.treatment))
    first = config.warm_up_days + config.acclimation_days
    days = []
    for day in range(first + config.days):
        counted: list[tuple[Counts, Counts]] = []
        if day == config.warm_up_days:
            tuners[1].start_from(tuners[0])
        for cycle in range(day * config.cycles_per_day, (day + 1) * config.cycles_per_day):
            split = day >= config.warm_up_days
            traffic = exchange.sell(cycle, tuners, split)
            counted.append((traffic.counts(0), traffic.counts(1)))
            for arm, tuner in enumerate(tuners if split else tuners[:1]):
                pooled = config.learn_from == "pooled"
                own = traffic.events if pooled else traffic.events.filter(pa.array(traffic.of(arm)))
                if len(own):
                    tuner.learn(cycle, own)
        control, treatment = (total(each) for each in zip(*counted, strict=True))
        if day >= first:
            days.append(Day(day - first + 1, control, treatment))
        tell(f"seed {seed}: day {day + 1} of {first + config.days}")
    names = config.control.name, config.treatment.name
    trial = Trial(f"seed {seed}", *names, tuple(days))
    return Finished(trial, (tuners[0].counts, tuners[1].counts))


class Exchange:
    """The market of one seed, where each bucket's own champion ranks the ads."""

    def __init__(self, config: AbConfig, seed: int) -> None:
        """Make the world and split its users."""
        market = config.source.model_copy(update={"seed": seed})
        self._world = Simulator(market).marketplace
        self._names = Names(market.geos, market.topics, market.categories)
        everybody = np.arange(market.users, dtype=np.int64)
        self._treated = in_treatment(everybody, f"{config.salt}-{seed}", config.share)
        self._terms, self._seed = config.auction, seed

    def sell(self, cycle: int, tuners: Sequence[Tuner], split: bool) -> Traffic:
        """All requests of a cycle; before the split the control has them all."""
        world = self._world
        market = world.market(cycle)
        visits = world.arrivals(cycle, None if market.campaigns.live.any() else 0)
        treated = self._treated[visits.user] & split
        slots = self._slots(market, visits)
        chosen, price = np.zeros(len(treated), np.int64), np.zeros(len(treated))
        for tuner, mine in zip(tuners, (~treated, treated), strict=True):
            if mine.any():
                chosen[mine], price[mine] = self._auction_off(slots, tuner.model, mine)
        clicks = world.clicks(cycle, world.click_probability(market, visits, chosen))
        events = event_table(self._names, visits, market, chosen, clicks)
        return Traffic(events, treated, clicks, price)

    def _slots(self, market: Market, visits: Visits) -> AdSlots:
        eligible, most = market.eligible, self._terms.candidates
        rng = np.random.default_rng((self._seed, market.cycle, STREAM))
        return AdSlots(
            pa.table(user_columns(self._names, visits)),
            eligible,
            pa.table(ad_columns(self._names, market, eligible)),
            market.bids(eligible),
            candidates(len(visits.user), len(eligible), most, rng),
        )

    def _auction_off(
        self, slots: AdSlots, model: Model, mine: NDArray[np.bool_]
    ) -> tuple[Numbers, Floats]:
        """The ads that win an arm's requests by its model, and their prices."""
        users = side_vectors(model, slots.users.filter(pa.array(mine)), "user")
        ads = side_vectors(model, slots.ads, "ad")
        shown = slots.candidates[mine]
        pctr = predicted(users, ads, float(model.bias[0]), shown)
        sold = hold(pctr, slots.bid_usd[shown], self._terms.reserve_usd)
        return slots.eligible[shown[np.arange(len(shown)), sold.winner]], sold.price_usd
