"""One A/B test in the marketplace: users come, champions bid for them, truth clicks, arms learn.

Nothing in the simulated market depends on what was shown before: its campaigns, budgets, bids and
fatigue are functions of the seed and the time. So the twins' copies of the market differ only by
what the arms show, get clicked and learn, and one object serves both copies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from divergence.jit import compiling
from orchestrator.ab.auction import Floats, Numbers, add_products, candidates, hold, predicted
from orchestrator.ab.buckets import in_treatment
from orchestrator.ab.config import AbConfig
from orchestrator.ab.counts import Counts, Day, Design, Finished, Trial, total, trial_name
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
    """A cycle's requests as they were sold: the log that arms learn from, and what clicks cost.

    Of the split, with the requests of both arms; or of one twin, which has them all.
    """

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

    market: Market
    visits: Visits
    users: pa.Table
    eligible: Numbers
    """The ads that can be shown, on the ring from which candidates are taken."""
    ads: pa.Table
    """What a model sees of them."""
    bid_usd: Floats
    candidates: Numbers
    """(requests, candidates), places in `eligible`."""


def run_trial(
    config: AbConfig,
    seed: int,
    tell: Callable[[str], None] = lambda _: None,
    design: Design = "split",
) -> Finished:
    """Run one seed in one design: warm-up, acclimation, and the days that count."""
    tuning = config.tuning(seed)
    spec = resolve_spec(tuning.source, feature_spec(config.features))
    exchange = Exchange(config, seed)
    tuners = tuple(Tuner(tuning, arm, spec) for arm in (config.control, config.treatment))
    first = config.warm_up_days + config.acclimation_days
    days = []
    for day in range(first + config.days):
        counted: list[tuple[Counts, Counts]] = []
        warm = day >= config.warm_up_days
        if day == config.warm_up_days:
            _start_arms(tuners, design)
        for cycle in range(day * config.cycles_per_day, (day + 1) * config.cycles_per_day):
            if warm and design == "twins":
                sold = exchange.sell_to_twins(cycle, tuners)
            else:
                sold = (exchange.sell(cycle, tuners, split=warm),) * 2
            counted.append((sold[0].counts(0), sold[1].counts(1)))
            for arm, tuner in enumerate(tuners if warm else tuners[:1]):
                own = sold[arm].events
                if design == "split" and config.learn_from == "own":
                    own = own.filter(pa.array(sold[arm].of(arm)))
                if len(own):
                    tuner.learn(cycle, own)
        control, treatment = (total(each) for each in zip(*counted, strict=True))
        if day >= first:
            kept = tuple(counted) if design == "twins" else ()
            days.append(Day(day - first + 1, control, treatment, kept))
        tell(f"{trial_name(seed, design)}: day {day + 1} of {first + config.days}")
    names = config.control.name, config.treatment.name
    trial = Trial(f"seed {seed}", *names, tuple(days), design)
    return Finished(trial, (tuners[0].counts, tuners[1].counts))


def _start_arms(tuners: Sequence[Tuner], design: Design) -> None:
    """The treatment starts from the control's model; of twins, the control starts again as well.

    A new start loses the rule's multipliers and the search's caution. If it did so for one twin
    only, an A/A test would not be zero.
    """
    tuners[1].start_from(tuners[0])
    if design == "twins":
        tuners[0].start_from(tuners[0])


class Exchange:
    """The market of one seed, where each bucket's own champion ranks the ads."""

    def __init__(self, config: AbConfig, seed: int) -> None:
        """Make the world and split its users."""
        market = config.source.model_copy(update={"seed": seed})
        self._world = Simulator(market).marketplace
        with compiling():
            nothing = np.zeros((0, 1), np.float32)
            add_products(nothing, nothing, np.zeros(0, np.int64), nothing)
            self._world.clicks_on(0, np.zeros(0, np.int64), np.zeros(0))
        self._names = Names(market.geos, market.topics, market.categories)
        everybody = np.arange(market.users, dtype=np.int64)
        self._treated = in_treatment(everybody, f"{config.salt}-{seed}", config.share)
        self._terms, self._seed = config.auction, seed

    def sell(self, cycle: int, tuners: Sequence[Tuner], split: bool) -> Traffic:
        """All requests of a cycle; before the split the control has them all."""
        slots = self._slots(cycle)
        treated = self._treated[slots.visits.user] & split
        chosen, price = np.zeros(len(treated), np.int64), np.zeros(len(treated))
        for tuner, mine in zip(tuners, (~treated, treated), strict=True):
            if mine.any():
                chosen[mine], price[mine] = self._auction_off(slots, tuner.model, mine)
        clicks = self._world.clicks(cycle, self._click_probability(slots, chosen))
        return Traffic(self._log(slots, chosen, clicks), treated, clicks, price)

    def sell_to_twins(self, cycle: int, tuners: Sequence[Tuner]) -> tuple[Traffic, ...]:
        """The treatment's bucket, sold by each arm in its own copy of the market."""
        slots = self._slots(cycle, self._treated)
        everybody = np.ones(len(slots.visits.user), np.bool_)
        sold = []
        for tuner, treated in zip(tuners, (~everybody, everybody), strict=True):
            chosen, price = self._auction_off(slots, tuner.model, everybody)
            probability = self._click_probability(slots, chosen)
            clicks = self._world.clicks_on(cycle, chosen, probability)
            sold.append(Traffic(self._log(slots, chosen, clicks), treated, clicks, price))
        return tuple(sold)

    def _click_probability(self, slots: AdSlots, chosen: Numbers) -> Floats:
        return self._world.click_probability(slots.market, slots.visits, chosen)

    def _log(self, slots: AdSlots, chosen: Numbers, clicks: NDArray[np.uint8]) -> pa.Table:
        return event_table(self._names, slots.visits, slots.market, chosen, clicks)

    def _slots(self, cycle: int, users: NDArray[np.bool_] | None = None) -> AdSlots:
        """The requests of all users, or of some."""
        market = self._world.market(cycle)
        visits = self._world.arrivals(cycle, None if market.campaigns.live.any() else 0)
        if users is not None:
            mine = users[visits.user]
            visits = self._world.visits(visits.user[mine], visits.time_us[mine])
        eligible = market.eligible
        rng = np.random.default_rng((self._seed, cycle, STREAM))
        ring, places = candidates(len(visits.user), len(eligible), self._terms.candidates, rng)
        eligible = eligible[ring]
        return AdSlots(
            market,
            visits,
            pa.table(user_columns(self._names, visits)),
            eligible,
            pa.table(ad_columns(self._names, market, eligible)),
            market.bids(eligible),
            places,
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
