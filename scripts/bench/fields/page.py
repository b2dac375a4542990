"""The page of the field's benchmark: what the numbers say, a table for each stream, a chart."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from orchestrator.charts.chart import Axis, Chart, Line, Panel, Tone, numbers
from scripts.bench.fields.learner import FieldSetting
from scripts.bench.fields.peers import BY_NAME, HOT, PEERS
from scripts.bench.fields.table import FieldRow, FieldTable

OURS = "holdfast"
"""The row that peers are compared with: one instance, searched as they are."""
FIGURE = "field.svg"
TITLES = {"stormy": "The calibrated market (stormy)", "movielens-100k": "MovieLens 100K"}


def page_text(table: FieldTable) -> str:
    """Everything between the markers, in Markdown."""
    parts = [
        *(verdict(table, stream) for stream in table.streams),
        _missing(table),
        f"![Served gain over time]({FIGURE})",
        *("\n".join(_stream(table, stream)) for stream in table.streams),
        "\n".join(_setups(table)),
        f"{table.machine}. {table.load}",
    ]
    return "\n\n".join(part for part in parts if part)


def verdict(table: FieldTable, stream: str) -> str:
    """What the numbers of a stream say; first, where a peer is better than one of our instances."""
    rows = {row.peer: row for row in table.of(stream)}
    ours = rows.get(OURS)
    peers = [row for row in rows.values() if not BY_NAME[row.peer].ours]
    head = f"**{_title(stream)}.**"
    if ours is None or not peers:
        return f"{head} Nothing to compare: {', '.join(rows) or 'nothing'} ran."
    claims = list(_claims(ours, peers))
    better = [claim for claim in claims if claim.startswith("Better")]
    worse = [claim for claim in claims if claim not in better]
    if not better:
        better = ["No peer is better than OFFSET with rule `holdfast` here."]
    return " ".join([head, *better, *worse])


def _claims(ours: FieldRow, peers: Sequence[FieldRow]) -> Iterator[str]:
    """On each measure, the peers that are better, then how far the best of the others is."""
    yield from _compared("Better at serving", "In served gain", ours, peers, _gain_text, _gain)
    yield from _compared("Better in speed", "In speed", ours, peers, _speed_text, _speed)
    yield from _compared("Better in memory", "In memory", ours, peers, _memory_text, _less_memory)
    hot = [peer for peer in peers if peer.hot]
    label = f"Better at {HOT} times the step size"
    yield from _compared(label, f"At {HOT} times the step size", ours, hot, _hot_text, _hot_gain)


def _compared(
    better: str,
    otherwise: str,
    ours: FieldRow,
    peers: Sequence[FieldRow],
    text: Callable[[FieldRow], str],
    worth: Callable[[FieldRow], float],
) -> Iterator[str]:
    ranked = sorted(peers, key=worth, reverse=True)
    ahead = [peer for peer in ranked if worth(peer) > worth(ours)]
    behind = [peer for peer in ranked if worth(peer) <= worth(ours)]
    if ahead:
        named = ", ".join(f"{_name(peer)} ({text(peer)})" for peer in ahead)
        yield f"{better} than OFFSET with rule `holdfast` ({text(ours)}): {named}."
    elif behind:
        best = behind[0]
        yield (
            f"{otherwise} OFFSET is ahead ({text(ours)}); "
            f"the best peer is {_name(best)} ({text(best)})."
        )


def _gain(row: FieldRow) -> float:
    return row.gain


def _speed(row: FieldRow) -> float:
    return row.events_a_second


def _less_memory(row: FieldRow) -> float:
    return -row.memory_mb


def _hot_gain(row: FieldRow) -> float:
    return row.hot_gain


def _gain_text(row: FieldRow) -> str:
    spread = f", seeds {min(row.gains):.1%} to {max(row.gains):.1%}" if len(row.gains) > 1 else ""
    return f"{row.gain:.2%}{spread}"


def _speed_text(row: FieldRow) -> str:
    return f"{thousands(row.events_a_second)} events a second"


def _memory_text(row: FieldRow) -> str:
    return f"{row.memory_mb:.0f} MB"


def _hot_text(row: FieldRow) -> str:
    return percent(row.hot_gain)


def _missing(table: FieldTable) -> str:
    if not table.missing:
        return ""
    named = "; ".join(f"{BY_NAME[name].title} (`{how}`)" for name, how in table.missing.items())
    return f"**Not run**, as it was not available here: {named}."


def _stream(table: FieldTable, stream: str) -> Iterator[str]:
    rows, seeds = table.of(stream), table.seeds[stream]
    first = rows[0].runs[0]
    searched = rows[0].first
    part = "another seed" if searched == 1 else f"the first {searched} chunks, which do not count"
    yield f"### {_title(stream)}\n"
    yield (
        f"{len(first.events)} chunks, {sum(first.events):,} events"
        f"{' of the first seed' if len(seeds) > 1 else ''}; seeds {', '.join(map(str, seeds))}. "
        f"Settings were found on {part}. *: a step size at the edge of those tried.\n"
    )
    yield (
        "| learner | setting | served log-loss | gain over a constant CTR | events a second "
        f"| memory | gain at {HOT} times the step size | there |"
    )
    yield "|---" * 8 + "|"
    for row in rows:
        cells = (
            _name(row),
            f"{_setting(row.setting)}{'*' if row.at_edge else ''}",
            f"{row.logloss:.5f}",
            _gain_text(row),
            thousands(row.events_a_second),
            f"{row.memory_mb:.0f} MB",
            percent(row.hot_gain) if row.hot else "",
            what_happens(row),
        )
        yield f"| {' | '.join(cells)} |"


def what_happens(row: FieldRow) -> str:
    """At ten times the best step size, in words."""
    if not row.hot:
        return "finds its own step sizes"
    if all(run.lost == len(run.events) for run in row.hot):
        return "diverges in every chunk: never a model to serve"
    lost = sum(run.lost for run in row.hot)
    said = f"; training diverged in {lost} of {sum(len(r.events) for r in row.hot)} chunks"
    diverged = said if lost else ""
    if not math.isfinite(row.hot_gain):
        return f"predictions are not finite numbers any more{diverged}"
    if row.holds:
        return f"holds{diverged}"
    if row.hot_gain < -1.0:
        return f"explodes: {1.0 - row.hot_gain:.3g} times a constant's log-loss{diverged}"
    worse = ", worse than a constant" if row.hot_gain < 0 else ""
    return f"loses {100 * row.loses:.1f} points{worse}{diverged}"


def _setups(table: FieldTable) -> Iterator[str]:
    yield "### How each is set up\n"
    yield (
        f"Each learner with a step size was tried with {table.tried} settings: its step size and "
        "its main other parameter. The best served log-loss was then run once for each seed.\n"
    )
    versions = {row.peer: row.version for row in table.rows}
    yield "| learner | version | tried | how |"
    yield "|---" * 4 + "|"
    for peer in PEERS:
        if peer.name in versions:
            name, values = peer.other
            steps = f"{peer.step} {peer.steps[0]:g} to {peer.steps[-1]:g}" if peer.step else ""
            others = f", {name} {' or '.join(map(_value, values))}" if peer.step else "nothing"
            cells = (peer.title, versions[peer.name], f"{steps}{others}", peer.how)
            yield f"| {' | '.join(cells)} |"


def chart(table: FieldTable) -> Chart:
    """Served gain so far, over events; a panel for each stream, the mean over seeds."""
    panels = tuple(_panel(table, stream) for stream in table.streams)
    caption = (
        "Served gain over a constant CTR, from the second chunk to here. Lines that leave the "
        "picture below are worse than a constant."
    )
    return Chart("field", "The field on the same events", caption, panels)


def _panel(table: FieldTable, stream: str) -> Panel:
    lines, top = [], 0.05
    for row in table.of(stream):
        gains = np.mean([so_far(run.events, run.constant, run.served) for run in row.runs], axis=0)
        seen = np.cumsum(row.runs[0].events)
        top = max(top, float(np.nanmax(gains)))
        name = f"OFFSET {row.peer}" if BY_NAME[row.peer].ours else row.peer  # short, for the legend
        dots = row.peer == "lineages"
        lines.append(Line(name, _tone(row.peer), numbers(seen), numbers(gains), dots=dots))
    events = sum(table.of(stream)[0].runs[0].events)
    x = Axis("events", 0, 1.02 * events, unit="count")
    y = Axis("gain so far", -0.1, 1.1 * top, unit="%")
    return Panel(_title(stream), x, y, tuple(lines))


def _tone(peer: str) -> Tone:
    """Colours are few: of our own rows, two have the special ones."""
    if peer in ("none", "lineages"):
        return "quiet" if peer == "none" else "accent"
    return [one.name for one in PEERS if one.name not in ("none", "lineages")].index(peer)


def so_far(
    events: Sequence[int], constant: Sequence[float], served: Sequence[float | None]
) -> list[float]:
    """The gain from the second chunk up to each chunk; NaN at the first."""
    rows = zip(events, constant, served, strict=True)
    each = np.array([(n * c, n * (c if own is None else own)) for n, c, own in rows])
    each[0] = 0.0
    total = np.cumsum(each, axis=0)
    with np.errstate(invalid="ignore"):
        return list(1.0 - total[:, 1] / total[:, 0])


def percent(gain: float) -> str:
    """A gain; -inf where predictions were not finite."""
    return f"{gain:.2%}" if math.isfinite(gain) else "not finite"


def thousands(number: float) -> str:
    """Three digits, such as 1,230,000."""
    return f"{float(f'{number:.3g}'):,.0f}"


def _setting(setting: FieldSetting) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in setting.items()) or "its own"


def _value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _name(row: FieldRow) -> str:
    return BY_NAME[row.peer].title


def _title(stream: str) -> str:
    return TITLES.get(stream, stream)
