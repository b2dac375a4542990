"""How far behind the best other rule `holdfast` serves, and whether that is more than noise.

The arms of a stream see the same chunks, so that the difference of two rules is paired by seed and
cycle. Its interval is Student's over the seeds: luck in one run shifts all its cycles, since each
starts from what the last one left.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from orchestrator.report.interval import Estimate, interval_over_runs

OURS = "holdfast"
MARGIN = 1e-3
"""How much worse than the best served log-loss a rule may serve, as a share of it."""
ALL = "mean of streams"


@dataclass(frozen=True, slots=True)
class ServedBar:
    """`holdfast` against the best other rule on one stream."""

    stream: str
    rival: str
    """The rule with the lowest served log-loss of the others, in hindsight."""
    behind: Estimate
    """How much higher the served log-loss of `holdfast` is, as a share of the rival's."""
    behind_blind: float
    """The same against rivals that are picked on the other seeds: free of the luck of the pick."""

    @property
    def verdict(self) -> str:
        """Whether the bar is met, in plain words."""
        if not self.behind.known:
            return "too few seeds"
        if self.behind.high <= MARGIN:
            return "met"
        return "missed" if self.behind.low > MARGIN else "within noise"


def served_bars(rows: pd.DataFrame) -> list[ServedBar]:
    """The bars of one selection: one for each stream, and one for the mean of all."""
    losses = rows.pivot_table("served_logloss", ["stream", "seed"], "rule", sort=False)
    streams = list(dict.fromkeys(rows["stream"]))
    scaled = pd.concat({one: losses.loc[one] / losses.loc[one].to_numpy().mean()
                        for one in streams})  # fmt: skip
    mean = scaled.groupby(level=1).mean()  # of every seed, over the streams
    return [*(_bar(one, losses.loc[one]) for one in streams), _bar(ALL, mean)]


def _bar(stream: str, losses: pd.DataFrame) -> ServedBar:
    """From a table with a row for each seed and a column for each rule."""
    ours, others = losses[OURS], losses.drop(columns=OURS)
    rival = str(others.mean().idxmin())
    behind = interval_over_runs(ours / others[rival] - 1)
    blind = [
        ours[seed] / others.loc[seed, others.drop(index=seed).mean().idxmin()] - 1
        for seed in losses.index
        if len(losses) > 1
    ]
    return ServedBar(stream, rival, behind, sum(blind) / len(blind) if blind else float("nan"))


def counted(bars: list[ServedBar]) -> str:
    """How many streams have which verdict: "met on 2, within noise on 3"."""
    verdicts = Counter(bar.verdict for bar in bars if bar.stream != ALL)
    return ", ".join(f"{verdict} on {count}" for verdict, count in sorted(verdicts.items()))


def bar_table(bars: list[ServedBar]) -> Iterator[str]:
    """The bars as a table, the point figures first."""
    yield "| stream | best other rule | behind it | 95% interval | bar of 0.1% | picked blindly |"
    yield "|---|---|---|---|---|---|"
    for bar in bars:
        behind = bar.behind
        interval = f"{behind.low:+.2%} to {behind.high:+.2%}" if behind.known else "-"
        yield (
            f"| {bar.stream} | {bar.rival} | {behind.mean:+.2%} | {interval} | {bar.verdict} | "
            f"{bar.behind_blind:+.2%} |"
        )
