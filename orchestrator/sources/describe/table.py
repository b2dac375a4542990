"""A description of a stream as tables for a terminal, and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from orchestrator.sources.describe.predictability import predictability_line
from orchestrator.sources.describe.summary import CycleSummary, Description, FeatureSummary

SHOWN_CYCLES = 12


def as_tables(described: Description) -> Group:
    """A headline, the predictability, a table of cycles and a table of features."""
    parts: list[Any] = [Text(headline(described))]
    for reason, rows in described.set_aside.items():
        parts.append(Text(f"  set aside: {rows:,} of {reason}", style="red"))
    parts.append(Text(predictability_line(described.predictability)))
    parts += [_cycles(described.cycles), _features(described)]
    return Group(*parts)


def headline(described: Description) -> str:
    """The stream in one line."""
    aside, cycles = sum(described.set_aside.values()), len(described.cycles)
    counted = f"{cycles} cycle{'s' * (cycles != 1)}"
    if described.ended:
        what = f"{counted} (the complete stream)"
    else:
        what = f"the first {counted} (--cycles N for more)"
    return f"{described.events:,} events in {what}, CTR {_ctr(described)}, {aside:,} rows set aside"


def description_json(described: Description) -> dict[str, Any]:
    """The description as JSON data."""
    total = {
        "events": described.events,
        "clicks": described.clicks,
        "set_aside": described.set_aside,
    }
    return {**total, **asdict(described)}


def print_tables(described: Description, console: Console) -> None:
    """Print the tables."""
    console.print(as_tables(described))


def _ctr(counted: Description | CycleSummary) -> str:
    return f"{counted.clicks / counted.events:.2%}" if counted.events else "-"


def _cycles(cycles: Sequence[CycleSummary]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="cycles", title_justify="left")
    for name in ("cycle", "events", "CTR", "set aside"):
        table.add_column(name, justify="right")
    table.add_column("from", overflow="fold")
    for cycle in _ends(cycles):
        if cycle is None:
            table.add_row("…", "", "", "", f"{len(cycles) - SHOWN_CYCLES} more cycles")
            continue
        aside = sum(cycle.set_aside.values())
        table.add_row(
            str(cycle.cycle), f"{cycle.events:,}", _ctr(cycle), f"{aside:,}", cycle.origin
        )
    return table


def _ends(cycles: Sequence[CycleSummary]) -> list[CycleSummary | None]:
    """All cycles, or the first and the last ones with None between them."""
    if len(cycles) <= SHOWN_CYCLES:
        return list(cycles)
    half = SHOWN_CYCLES // 2
    return [*cycles[:half], None, *cycles[-half:]]


def _features(described: Description) -> Table:
    table = Table(box=box.SIMPLE_HEAD, title="features", title_justify="left")
    table.add_column("side")
    table.add_column("feature")
    names = ("values", "missing", "per event", "new per cycle", "vanished per cycle")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("most frequent (share, CTR)", overflow="fold")
    for feature in described.features:
        missing = f"{feature.missing / described.events:.2%}" if described.events else "-"
        new, vanished = turnover(feature)
        frequent = ", ".join(
            f"{shortened(v.value, 16)} ({v.share:.0%}, {v.ctr:.1%})" for v in feature.top[:4]
        )
        table.add_row(
            feature.side,
            feature.name,
            f"{feature.cardinality:,}",
            missing,
            f"{feature.values_per_event:.2f}",
            f"{new:.1f}",
            f"{vanished:.1f}",
            frequent,
        )
    return table


def shortened(text: str, most: int) -> str:
    """The text, cut off after `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def turnover(feature: FeatureSummary) -> tuple[float, float]:
    """Mean new and vanished values per cycle, without the first, in which all are new."""
    later = feature.cycles[1:]
    if not later:
        return 0.0, 0.0
    new, vanished = (sum(getattr(c, key) for c in later) for key in ("new", "vanished"))
    return new / len(later), vanished / len(later)
