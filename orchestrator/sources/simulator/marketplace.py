"""The world behind the log: which users visit, which ads exist, and what makes people click.

Nothing here keeps state: each method is a pure function of the config and its arguments.
The log (`source`) is one policy acting in this world, serving by popularity; an auction is
another: take `market(cycle).eligible` and `bids`, choose ads for `arrivals(cycle)`, and get the
result from `click_probability` and `clicks`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.sources.simulator import chance, demand, laws, season, supply, truth
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.state import (
    HOURS,
    Campaigns,
    Floats,
    Tastes,
    Visits,
)

Numbers = NDArray[np.int64]

CALIBRATION_CYCLES = 64
CALIBRATION_STRIDE_MIN = 5115  # 3.55 days: 64 of them visit all hours and weekdays of 32 weeks
CALIBRATION_EVENTS = 500


@dataclass(frozen=True, slots=True, eq=False)
class Market:
    """What holds during one cycle. Ad number = place of its campaign * creatives + creative."""

    cycle: int
    now_h: float
    campaigns: Campaigns
    creatives: int
    tastes: Tastes
    category: Floats  # (categories, rank + 1): what an ad has from its category; last in logits
    exposure: Floats  # (campaigns,): views so far by the average user

    @property
    def eligible(self) -> Numbers:
        """The ads that can be shown now."""
        places = np.flatnonzero(self.campaigns.live)
        return (places[:, None] * self.creatives + np.arange(self.creatives)).ravel()

    def bids(self, ads: Numbers) -> Floats:
        """What a click on each of these ads pays, in US dollars."""
        return self.campaigns.bid_usd[ads // self.creatives]


class Marketplace:
    """The world of one config. Creating it draws the users' traits and calibrates the CTR."""

    def __init__(self, config: SimulatorConfig) -> None:
        self.config = config
        self.seed = np.uint64(chance.mix(np.uint64(config.seed)))
        self.start_us = round(config.start.timestamp() * 1e6)
        self.cycle_us = config.cycle_minutes * 60_000_000
        self._people = laws.people(config, self.seed)
        self._turnover = laws.turnover(config)
        self._quality = laws.quality(config, self.seed)
        self._hidden = laws.hidden(config, self.seed)
        self._bias = 0.0
        self._bias = self._calibrate()

    def span_us(self, cycle: int) -> tuple[int, int]:
        """[start, end) of a cycle in microseconds since 1970, UTC."""
        start = self.start_us + cycle * self.cycle_us
        return start, start + self.cycle_us

    def market(self, cycle: int) -> Market:
        """The market during this cycle."""
        config, now_h = self.config, self.span_us(cycle)[0] / demand.HOUR_US
        shock = supply.shock_logits(
            self.seed,
            now_h,
            config.shocks_per_day,
            config.shock_h,
            (config.categories, config.shock_reach, config.shock_size),
        )
        wanted = season.category_demand(config, now_h % HOURS) * np.exp(np.maximum(shock, 0.0))
        campaigns = supply.settle(self.seed, now_h, self._turnover, wanted)
        category = self._drifting(len(Tastes._fields), config.categories, now_h)
        category[:, -1] = 0.5 * config.quality_sd * category[:, -1] + shock
        share = campaigns.weight / campaigns.weight.sum()
        return Market(
            cycle=cycle,
            now_h=now_h,
            campaigns=campaigns,
            creatives=config.creatives_per_campaign,
            tastes=self._tastes(now_h),
            category=category,
            exposure=config.views_per_user_day * share * campaigns.age_h / HOURS,
        )

    def arrivals(self, cycle: int, n: int | None = None) -> Visits:
        """The visits of this cycle in time order: n, or as many as the season brings."""
        span_us = self.span_us(cycle)
        if n is None:
            middle_h = (span_us[0] + self.cycle_us / 2) / demand.HOUR_US
            n = season.volume(self.config, (middle_h + demand.THURSDAY_H) % season.WEEK_H)
        power = 1.0 / (1.0 - self.config.user_skew)
        key = self._key(chance.VISITOR, cycle)
        return self.visits(*demand.arrive(key, n, self.config.users, power, span_us))

    def visits(self, user: Numbers, time_us: Numbers) -> Visits:
        """These users (below `config.users`) at these times."""
        _check_below(self.config.users, user, "user")
        visits = demand.visit(self.seed, user, time_us, self._people)
        end = visits.topic_offset[-1]
        return visits._replace(topic=visits.topic[:end], topic_weight=visits.topic_weight[:end])

    def serve(self, market: Market, n: int) -> Numbers:
        """The ads of the log's n events, drawn by popularity; needs an eligible ad."""
        campaigns = market.campaigns
        share = 1.0 / np.arange(1, market.creatives + 1)
        return supply.serve(
            self._key(chance.SERVED, market.cycle),
            n,
            supply.alias_table(np.where(campaigns.live, campaigns.weight, 0.0)),
            np.cumsum(share / share.sum()),
        )

    def click_probability(self, market: Market, visits: Visits, ads: Numbers) -> Floats:
        """The truth: how probable it is that visit i clicks on ads[i].

        The log-odds are a low-rank product of what the visit's features like and what the ad's
        features offer, plus quality and shocks, plus what an OFFSET model cannot represent: each
        user's own liking of a category (a model has no user ids), an interaction of age, geo and
        device at once (it multiplies pairs only), and the logarithm of how often the user has
        seen the campaign.
        """
        limit = self.config.campaigns * market.creatives
        _check_below(limit, ads, "ad")
        distinct, row = supply.first_seen(ads, limit)
        described = truth.describe_ads(
            distinct,
            market.now_h,
            market.campaigns,
            market.exposure,
            market.category,
            self._quality,
        )
        logits = truth.click_logits(
            visits, described, row, market.tastes, self._hidden, self._people.activity
        )
        return _sigmoid(logits + self._bias)

    def clicks(self, cycle: int, probability: Floats) -> NDArray[np.uint8]:
        """1 where visit i of this cycle clicks, given how probable that is."""
        return truth.click(self._key(chance.CLICK, cycle), probability)

    def clicks_on(self, cycle: int, ads: Numbers, probability: Floats) -> NDArray[np.uint8]:
        """`clicks` with a coin for each visit and ad: two policies that show a visit the same ad
        get the same outcome, and those that show it different ads get independent ones.
        """
        return truth.click_on(self._key(chance.CLICK, cycle), ads, probability)

    def _key(self, stream: np.int64, index: int) -> np.uint64:
        return np.uint64(chance.roll(self.seed, stream, index))  # numba gives back an int

    def _tastes(self, now_h: float) -> Tastes:
        sizes, scale = laws.taste_sizes(self.config), laws.taste_scale(self.config)
        return Tastes(*(self._drifting(i, size, now_h) * scale for i, size in enumerate(sizes)))

    def _drifting(self, field: int, rows: int, now_h: float) -> Floats:
        config = self.config
        key = self._key(chance.KNOT, field)
        shape = (rows, config.rank + 1)
        return chance.drifting_rows(key, shape, now_h, config.taste_drift_h, config.drift_share)

    def _calibrate(self) -> float:
        """The constant that makes the mean probability of a sample of half a year `ctr`."""
        logits = []
        stride = max(CALIBRATION_STRIDE_MIN // self.config.cycle_minutes, 1)
        for cycle in range(0, CALIBRATION_CYCLES * stride, stride):
            market = self.market(cycle)
            if not market.campaigns.live.any():
                continue
            visits = self.arrivals(cycle, CALIBRATION_EVENTS)
            ads = self.serve(market, CALIBRATION_EVENTS)
            p = self.click_probability(market, visits, ads)
            logits.append(np.log(p / (1.0 - p)))
        return _constant_for(np.concatenate(logits), self.config.ctr) if logits else 0.0


def _constant_for(logits: Floats, mean: float) -> float:
    """By bisection; rounded, so that the last bit of another libm changes nothing."""
    low, high = -50.0, 50.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        if _sigmoid(logits + middle).mean() < mean:
            low = middle
        else:
            high = middle
    return round(low, 6)


def _sigmoid(x: Floats) -> Floats:
    return 1.0 / (1.0 + np.exp(-x))


def _check_below(limit: int, numbers: Numbers, name: str) -> None:
    """Kernels do not check their indices."""
    if len(numbers) and not (numbers.min() >= 0 and numbers.max() < limit):
        raise IndexError(
            f"{name} numbers must be in 0..{limit - 1}, but got {numbers.min()}..{numbers.max()}"
        )
