"""The runs of a report in the form that all sections use: frames and pairs of arms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
import pandas as pd

from orchestrator.config.schema import ArmConfig, StartFrom
from orchestrator.config.trainers import StateTrainerConfig
from orchestrator.report.frames import OTHERS, cycles_frame, instances_frame, lines_frame
from orchestrator.report.interval import Estimate, mean_interval
from orchestrator.report.load import Run

DUAL_ASCENT = ("entropic", "euclidean")
STEPS = ("eta0", "alpha", "beta")
DAY = 96
"""Cycles in a day: the paper's cycles are 15 minutes long."""
TINY = 0.1
"""Of the median number of events: a cycle with fewer does not count for the log-loss."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two arms of a run on the cycles of which both have a record.

    `ours` and `theirs` have the same index, the cycle. Comparisons of models skip the first
    `acclimation` cycles, in which `ours` still resembles the model that it started from: that of
    `theirs`, or one that both started from.
    """

    run: str
    arm: str
    baseline: str
    ours: pd.DataFrame
    theirs: pd.DataFrame
    acclimation: int
    forked: bool = False
    """Whether both started from one model: with more cycles the acclimation will be longer."""

    def lift(self) -> pd.Series:
        """How much lower the served log-loss is than the baseline's, in percent of the latter.

        NaN for a cycle with few events, such as the rest of one that was cut short: all cycles
        weigh the same, and the log-loss of a handful of events may be anything.
        """
        base, events = self.theirs["served_logloss"], self.ours["events"].astype(float)
        lift = 100.0 * (base - self.ours["served_logloss"]) / base
        return lift.where(~(events < TINY * events.median()))

    def mean_lift(self) -> Estimate:
        """The mean lift after the acclimation; it cannot exceed 100%."""
        return mean_interval(self.settled(self.lift())).within(-np.inf, 100.0)

    def acclimation_span(self) -> tuple[float, float] | None:
        """The first and last cycle of the acclimation; None if there is no acclimation."""
        index = self.ours.index
        return (float(index[0]), float(index[self.acclimation])) if self.acclimation else None

    def settled(self, series: pd.Series) -> pd.Series:
        """The part of a series after the acclimation."""
        return series.iloc[self.acclimation :]

    def log_ratio(self, column: str) -> pd.Series:
        """ln(ours / theirs) after the acclimation; below 0 if ours is smaller."""
        ratio = self.settled(self.ours[column] / self.theirs[column])
        logs: pd.Series = np.log(ratio.where(ratio > 0))
        return logs


@dataclass(frozen=True)
class Study:
    """The runs of a report, and which arms are compared."""

    runs: tuple[Run, ...]
    baseline: str | None = None
    """An arm's name, or RUN:ARM; None: the first arm with l2 (the paper's production rule), else
    the first.

    A requested challenger is not the baseline, unless a run has no other arm.
    """
    challenger: str | None = None
    """An arm's name, or RUN:ARM; None: the first entropic arm except the baseline, else the first
    other arm."""

    @cached_property
    def cycles(self) -> pd.DataFrame:
        """One row per run, arm and cycle."""
        return cycles_frame(self.runs)

    @cached_property
    def instances(self) -> pd.DataFrame:
        """One row per instance."""
        return instances_frame(self.runs)

    @cached_property
    def lines(self) -> pd.DataFrame:
        """One row per line and cycle, where `search.select` is lineages."""
        return lines_frame(self.runs)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """All arm names: the baselines, the challengers, then the others in order."""
        first = [*map(self.baseline_of, self.runs), *map(self.challenger_of, self.runs)]
        names = [*first, *(arm for run in self.runs for arm in run.records)]
        return tuple(dict.fromkeys(name for name in names if name is not None))

    @property
    def shown(self) -> tuple[Run, ...]:
        """The runs that have committed cycles."""
        return tuple(run for run in self.runs if run.cycles)

    @cached_property
    def searching(self) -> "Study":
        """The study without sustained runs, which have hundreds of arms and no search."""
        return replace(self, runs=tuple(run for run in self.runs if not run.sustained))

    def panel_title(self, run: Run, text: str = "") -> str:
        """A panel's title; it names the run if there are several runs."""
        if len(self.shown) == 1:
            return text
        return f"{run.name}: {text}" if text else run.name

    def of(self, run: Run, arm: str) -> pd.DataFrame:
        """An arm's cycles, indexed by cycle."""
        return self._cycles_by_arm.get((run.name, arm), self._no_cycles)

    def instances_of(self, run: Run, arm: str) -> pd.DataFrame:
        """An arm's instances."""
        return self._instances_by_arm.get((run.name, arm), self.instances.iloc[:0])

    @cached_property
    def _cycles_by_arm(self) -> dict[tuple[str, str], pd.DataFrame]:
        indexed = self.cycles.set_index(self.cycles["cycle"].astype(int))
        return _by_arm(indexed)

    @cached_property
    def _instances_by_arm(self) -> dict[tuple[str, str], pd.DataFrame]:
        return _by_arm(self.instances)

    @cached_property
    def _no_cycles(self) -> pd.DataFrame:
        return self.cycles.iloc[:0].set_index(pd.Index([], dtype=int))

    def baseline_of(self, run: Run) -> str:
        """The arm that the others are compared with."""
        arms, challenger = run.config.arms, _own_name(run, self.challenger)
        others = [arm for arm in arms if arm.name != challenger]
        return _by_preference(_own_name(run, self.baseline), "l2", others or arms)[0]

    def challenger_of(self, run: Run) -> str | None:
        """The arm that is compared with the baseline; None if there is only one arm."""
        others = [arm for arm in run.config.arms if arm.name != self.baseline_of(run)]
        preferred = _by_preference(_own_name(run, self.challenger), "entropic", others)
        return next(iter(preferred), None)

    def shared(self, run: Run) -> pd.Index:
        """The cycles of which every arm has a record; arms without any record are ignored."""
        indices = [self.of(run, arm).index for arm, records in run.records.items() if records]
        return reduce(pd.Index.intersection, indices)

    def pair(self, run: Run, arm: str, baseline: str) -> Pair:
        """Two arms on the cycles that they share."""
        ours, theirs = self.of(run, arm), self.of(run, baseline)
        shared = ours.index.intersection(theirs.index)
        starts = {a.name: a.start_from for a in run.config.arms}
        start, other = starts[arm], starts[baseline]
        from_baseline = isinstance(start, StartFrom) and start.arm == baseline
        forked = start is not None and (from_baseline or start == other)
        # One day, as in the paper, or a quarter of the shared cycles if that is less.
        acclimation = min(DAY, len(shared) // 4) if forked else 0
        return Pair(
            run.name, arm, baseline, ours.loc[shared], theirs.loc[shared], acclimation, forked
        )

    def is_paper_comparison(self, run_name: str) -> bool:
        """Whether the compared arms are dual ascent and something else, as in the paper."""
        run = next(run for run in self.runs if run.name == run_name)
        rules = {arm.name: arm.rule.name for arm in run.config.arms}
        challenger = self.challenger_of(run)
        ascent = challenger is not None and rules[challenger] in DUAL_ASCENT
        return ascent and rules[self.baseline_of(run)] not in DUAL_ASCENT

    @property
    def is_paper_design(self) -> bool:
        """Whether all runs are set up as in the paper: dual ascent that starts from the baseline.

        The configs that reproduce the paper are, and the quickstart; those of other data are not.
        """
        return all(self._starts_from_baseline(run) for run in self.shown)

    def _starts_from_baseline(self, run: Run) -> bool:
        starts = {arm.name: arm.start_from for arm in run.config.arms}
        start = starts.get(self.challenger_of(run) or "")
        forked = isinstance(start, StartFrom) and start.arm == self.baseline_of(run)
        return forked and self.is_paper_comparison(run.name)

    def main_pair(self, run: Run) -> Pair | None:
        """The challenger against the baseline."""
        arm = self.challenger_of(run)
        return self.pair(run, arm, self.baseline_of(run)) if arm else None


def step_names(run: Run) -> tuple[str, ...]:
    """The parameters of a run's trainer that are searched; the first is the step size."""
    trainer = run.config.trainer
    return tuple(trainer.ranges) if isinstance(trainer, StateTrainerConfig) else STEPS


def step_columns(run: Run) -> tuple[str, ...]:
    """The columns of the same in the study's frames."""
    names = step_names(run)
    return names if names == STEPS else tuple(f"{OTHERS[1]}{name}" for name in names)


def running_mean(series: pd.Series, window: int) -> pd.Series:
    """A centred running mean over `window` cycles, over fewer at both ends."""
    return series.rolling(window, center=True, min_periods=max(1, window // 3)).mean()


def running_median(series: pd.Series, window: int) -> pd.Series:
    """A centred running median: a single extreme cycle does not move it."""
    return series.rolling(window, center=True, min_periods=max(1, window // 3)).median()


def window_for(cycles: int) -> int:
    """The smoothing window: an odd number, about a 28th of the run (6 hours of a week)."""
    return max(5, cycles // 28) | 1


def _by_arm(frame: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    return {(str(run), str(arm)): rows for (run, arm), rows in frame.groupby(["run", "arm"])}


def _own_name(run: Run, name: str | None) -> str | None:
    """The arm that ARM or RUN:ARM names in a run; it may have none of that name."""
    return name.removeprefix(f"{run.name}:") if name else None


def _by_preference(name: str | None, rule: str, arms: Sequence[ArmConfig]) -> list[str]:
    """Arm names: the requested one first, then those with this rule, then all."""
    requested = [arm.name for arm in arms if arm.name == name]
    same_rule = [arm.name for arm in arms if arm.rule.name == rule]
    return [*requested, *same_rule, *(arm.name for arm in arms)]
