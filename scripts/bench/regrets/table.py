"""The tables of the regret benchmark, in Markdown, and its bars as met or missed.

Gain: by how much served log-loss lies below that of a constant CTR. Regret: how many points of gain
a method lies below the best fixed setting of its stream and seed, which is known in hindsight only.
All intervals are over seeds, of differences on the same chunks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from orchestrator.report.interval import Estimate, interval_over_runs
from scripts.bench.regrets.mean_of import mean_name
from scripts.bench.regrets.methods import DEFAULT, FIXED, METHODS, TOGETHER
from scripts.bench.regrets.results import Result

BEST = "best fixed"
SINGLE = "default alone"
SEARCHES = (*(m.name for m in METHODS if m.grid is None), *map(mean_name, TOGETHER), SINGLE)
POINTS = 100.0
WORST_REGRET = 0.5
"""The bar: so many points of gain below the best fixed setting, on any stream."""

Results = Mapping[tuple[str, int], Result]
"""By stream and seed."""


@dataclass(frozen=True)
class Comparison:
    """The gains of all methods on all streams, in points."""

    streams: tuple[str, ...]
    seeds: tuple[int, ...]
    gains: Mapping[tuple[str, int], Mapping[str, float]]
    """By stream and seed; by method, `BEST`, `SINGLE` and fixed setting."""
    logloss: Mapping[tuple[str, int], Mapping[str, float]]

    @classmethod
    def of(cls, results: Results) -> "Comparison":
        """Of complete results: every seed on every stream."""
        streams = tuple(dict.fromkeys(stream for stream, _ in results))
        seeds = tuple(dict.fromkeys(seed for _, seed in results))
        gains, logloss = {}, {}
        for key, result in results.items():
            found = {name: POINTS * gain for name, gain in result.gains.items()}
            best = max(FIXED, key=lambda name: found[name])
            gains[key] = found | {BEST: found[best], SINGLE: found[DEFAULT]}
            loss = result.logloss
            logloss[key] = loss | {BEST: loss[best], SINGLE: loss[DEFAULT]}
        return cls(streams, seeds, gains, logloss)

    def below(self, method: str, other: str, streams: Sequence[str]) -> Estimate:
        """By how many points a method lies below another, on the mean of some streams."""
        each = [
            fmean(self.gains[s, seed][other] - self.gains[s, seed][method] for s in streams)
            for seed in self.seeds
        ]
        return interval_over_runs(each)

    def mean_gain(self, method: str, streams: Sequence[str]) -> float:
        """The mean over seeds and these streams."""
        return fmean(self.gains[s, seed][method] for s in streams for seed in self.seeds)

    def mean_logloss(self, method: str, stream: str) -> float:
        """The mean over seeds."""
        return fmean(self.logloss[stream, seed][method] for seed in self.seeds)


def regret_tables(found: Comparison) -> str:
    """Everything that goes on the page."""
    parts = (_served(found), _regrets(found), _bars(found), _settings(found))
    return "\n\n".join("\n".join(lines) for lines in parts)


def _served(found: Comparison) -> Iterator[str]:
    names = (*SEARCHES, BEST)
    yield "Served log-loss, and gain over a constant CTR:\n"
    yield from _header("stream", names)
    for stream in found.streams:
        cells = (
            f"{found.mean_logloss(name, stream):.5f} ({found.mean_gain(name, [stream]):.2f}%)"
            for name in names
        )
        yield _row(stream, cells)
    means = (f"({found.mean_gain(name, found.streams):.2f}%)" for name in names)
    yield _row("**mean**", means)


def _regrets(found: Comparison) -> Iterator[str]:
    yield "Regret in points of gain, with 95% intervals; below 0: better than the best of the"
    yield f"{len(FIXED)} fixed settings, in hindsight:\n"
    yield from _header("stream", SEARCHES)
    for stream in found.streams:
        yield _row(stream, (_text(found.below(m, BEST, [stream])) for m in SEARCHES))
    yield _row("**mean**", (_text(found.below(m, BEST, found.streams)) for m in SEARCHES))


def _bars(found: Comparison) -> Iterator[str]:
    names = ("lineages", *map(mean_name, TOGETHER))
    yield from _header("bar", names)
    for rows in zip(*(bars(found, name) for name in names), strict=True):
        cells = (f"{one.measured}: {'met' if one.met else '**missed**'}" for one in rows)
        yield _row(rows[0].text, cells)


@dataclass(frozen=True, slots=True)
class Bar:
    """What a method should reach, what was measured, and whether that is enough."""

    text: str
    measured: str
    met: bool


def bars(found: Comparison, method: str) -> Iterator[Bar]:
    """The bars of a method."""
    mean = found.below(method, BEST, found.streams)
    yield Bar("regret on the mean of streams <= 0", _text(mean), mean.mean <= 0)
    on = {stream: found.below(method, BEST, [stream]) for stream in found.streams}
    worst = max(on, key=lambda stream: on[stream].mean)
    met = on[worst].mean <= WORST_REGRET
    yield Bar(f"regret on any stream <= {WORST_REGRET}", f"{worst} {_text(on[worst])}", met)
    over = {stream: found.below("champion", method, [stream]) for stream in found.streams}
    least = min(over, key=lambda stream: over[stream].low)
    yield Bar(
        "better than champion on every stream, with the whole interval",
        f"{least} {_text(over[least])}",
        all(one.low > 0 for one in over.values()),
    )
    if "switching" in on:
        moving = on["switching"]
        text = "better than every fixed setting on switching"
        yield Bar(text, _text(moving), moving.mean < 0)


def _settings(found: Comparison) -> Iterator[str]:
    """The fixed settings that are best on the mean of streams, and the default one."""

    def regret(name: str) -> float:
        return found.below(name, BEST, found.streams).mean

    ranked = sorted(FIXED, key=regret)
    shown = [*ranked[:5], *(name for name in (DEFAULT,) if name not in ranked[:5])]
    yield "Fixed settings (eta0, alpha, beta), by their mean regret, and that of the default:\n"
    yield from _header("setting", (*found.streams, "mean"))
    for name in shown:
        text = f"**{name}** (default)" if name == DEFAULT else name
        each = [found.below(name, BEST, [s]).mean for s in found.streams]
        yield _row(text, (f"{value:.2f}" for value in (*each, regret(name))))


def _text(one: Estimate) -> str:
    bounds = f" ({one.low:.2f} to {one.high:.2f})" if one.known else ""
    return f"{one.mean:.2f}{bounds}"


def _header(first: str, names: Sequence[str]) -> list[str]:
    return [_row(first, names), "|---" * (len(names) + 1) + "|"]


def _row(first: str, cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"
