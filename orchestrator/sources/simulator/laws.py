"""The kernels' parameters, from the config."""

import numpy as np

from orchestrator.sources.simulator import season
from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.demand import traits
from orchestrator.sources.simulator.state import (
    AGES,
    DEVICES,
    GENDERS,
    HOURS,
    Floats,
    Hidden,
    People,
    Quality,
    Tastes,
    Turnover,
)


def people(config: SimulatorConfig, seed: np.uint64) -> People:
    """The users of this world."""
    age, gender, geo = traits(seed, config.users, config.geos)
    place = (np.arange(config.users) + 0.5) / config.users
    return People(
        age,
        gender,
        geo,
        (1.0 - config.user_skew) * place**-config.user_skew,
        config.views_per_user_day * config.ctr,
        season.desktop_share(config),
        config.topics,
        config.categories,
        config.topic_lifetime_h,
    )


def turnover(config: SimulatorConfig) -> Turnover:
    """How its campaigns come and go."""
    return Turnover(
        config.campaigns,
        config.advertisers,
        config.categories,
        config.popularity_skew,
        config.bid_usd,
        config.campaign_lifetime_h,
        config.lifetime_spread,
        config.depletion_share,
        config.pauses_per_day,
        config.pause_h,
        config.flags_per_week / 7.0,
        config.flag_h,
    )


def quality(config: SimulatorConfig, seed: np.uint64) -> Quality:
    """How good its ads are."""
    return Quality(
        seed,
        config.creatives_per_campaign,
        config.quality_sd,
        config.quality_drift_h,
        config.drift_share,
    )


def hidden(config: SimulatorConfig, seed: np.uint64) -> Hidden:
    """The effects that no OFFSET model can represent."""
    return Hidden(seed, config.hidden_sd, config.fatigue)


def taste_sizes(config: SimulatorConfig) -> tuple[int, ...]:
    """The number of values of each field of `Tastes`."""
    return (
        len(AGES) * len(GENDERS),
        len(DEVICES) * HOURS,
        config.geos,
        config.categories + 1,
        config.topics,
    )


def taste_scale(config: SimulatorConfig) -> Floats:
    """(rank + 1,): makes the product with an ad's vector vary by interaction_sd.

    Users' main effects, the last column, are half as strong.
    """
    fields = len(Tastes._fields)
    scale = np.full(config.rank + 1, config.interaction_sd / np.sqrt(fields * config.rank))
    scale[-1] = 0.5 * config.interaction_sd / np.sqrt(fields)
    return scale
