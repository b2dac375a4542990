"""How volume and mix vary over the day and the week."""

import numpy as np
from numpy.typing import NDArray

from orchestrator.sources.simulator.config import SimulatorConfig
from orchestrator.sources.simulator.state import HOURS, Floats

PEAK_HOUR = 21.0  # of volume: the evening
OFFICE_HOUR = 13.0  # the middle of the desktops' day
DESKTOP_SHARE = 0.35
WEEK_H = 168


def _wave(hour: float | Floats, peak: float | Floats) -> Floats:
    return np.cos(2 * np.pi / HOURS * (np.asarray(hour) - peak))


def _is_weekend(hour_of_week: float | Floats) -> NDArray[np.bool_]:
    return np.asarray(np.asarray(hour_of_week) % WEEK_H >= 5 * HOURS)


def volume(config: SimulatorConfig, hour_of_week: float) -> int:
    """Events of the cycle around this hour of the week (0: Monday 0:00)."""
    day = 1.0 + config.daily_swing * _wave(hour_of_week, PEAK_HOUR)
    less, more = -5 / 7 * config.weekly_swing, 2 / 7 * config.weekly_swing
    week = 1.0 + np.where(_is_weekend(hour_of_week), less, more)
    return round(float(config.events_per_cycle * day * week))


def desktop_share(config: SimulatorConfig) -> Floats:
    """Share of visits from desktops by hour of the week, (168,): most in office hours."""
    hours = np.arange(WEEK_H, dtype=np.float64)
    office = np.where(_is_weekend(hours), -1.0, _wave(hours, OFFICE_HOUR))
    return DESKTOP_SHARE * (1.0 + config.mix_swing * office)


def category_demand(config: SimulatorConfig, hour: float) -> Floats:
    """How much each category is wanted at this hour, (categories,), 1 on average over a day."""
    golden = 0.618  # spreads the categories' best hours evenly, in no order
    peaks = HOURS * (np.arange(config.categories, dtype=np.float64) * golden % 1.0)
    return 1.0 + config.mix_swing * _wave(hour, peaks)
