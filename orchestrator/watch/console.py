"""A run on the console: a live table, plain lines or JSON lines, from its records alone."""

import json
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from types import TracebackType
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from orchestrator.journal.record import CycleRecord, count_outcomes, winning_outcome
from orchestrator.validation.uris import redact
from orchestrator.watch.lines import LineNews, champion_of, mean_text, setting_text
from trainer.outcome import Outcome, Status

BAR = 16
SPIN_S = 0.1


class View(AbstractContextManager["View"], Protocol):
    """Shows the cycles of a run as they are committed."""

    def show(self, records: Sequence[CycleRecord]) -> None:
        """One cycle: a record of each arm in it."""
        ...

    def say(self, message: str) -> None:
        """A line that is not about a cycle."""
        ...

    def step(self, message: str) -> None:
        """What the run does until its first cycle is shown."""
        ...


def open_view(stream: TextIO, as_json: bool, cycles: int | None) -> View:
    """JSON lines if asked for, a live table on a terminal, plain lines elsewhere."""
    if as_json:
        return JsonView(stream)
    if stream.isatty():
        return TableView(Console(file=stream), cycles)
    return LineView(stream, cycles)


class LineView:
    """A line for each arm and cycle."""

    def __init__(self, stream: TextIO, cycles: int | None) -> None:
        self.stream, self.cycles = stream, cycles
        self._began = time.monotonic()
        self._news = LineNews()
        self._turn = threading.Lock()  # stopping and publishing are announced by other threads

    def __enter__(self) -> "LineView":
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.flush()

    def show(self, records: Sequence[CycleRecord]) -> None:
        """One cycle, why instances failed, and what it has changed among lines."""
        for record in records:
            self.say(f"{progress(record.cycle, self.cycles)}  {line(record)}")
            for sentence in [*failures(record), *self._news.of(record)]:
                self.say(f"  {sentence}")

    def say(self, message: str) -> None:
        """A line that is not about a cycle."""
        self._write(redact(message))

    def step(self, message: str) -> None:
        """A line, with the seconds since the start."""
        self.say(f"{time.monotonic() - self._began:5.1f} s  {message}")

    def _write(self, line: str) -> None:
        with self._turn:
            self.stream.write(line + "\n")
            self.stream.flush()


class JsonView(LineView):
    """The same as JSON, one object per line."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream, None)

    def show(self, records: Sequence[CycleRecord]) -> None:
        """One cycle."""
        for record in records:
            self._write(json.dumps(summary(record)))

    def say(self, message: str) -> None:
        """A line that is not about a cycle."""
        self._write(json.dumps({"message": redact(message)}))

    def step(self, message: str) -> None:
        """Nothing: a program does not lose patience."""


class TableView:
    """A live table: the newest cycle, a row for each arm. A spinner until there is one."""

    def __init__(self, console: Console, cycles: int | None) -> None:
        self.live = Live(console=console, auto_refresh=False)
        self.cycles = cycles
        self.seconds: list[float] = []
        self._news, self._newest = LineNews(), dict[str, str]()
        self._spinner = Spinner("dots", "starting")
        self._began = time.monotonic()
        self._shown = threading.Event()

    def __enter__(self) -> "TableView":
        self.live.__enter__()
        threading.Thread(target=self._spin, daemon=True, name="spinner").start()
        return self

    def _spin(self) -> None:
        while not self._shown.wait(SPIN_S):
            self.live.update(self._spinner, refresh=True)

    def step(self, message: str) -> None:
        """The text beside the spinner, with the seconds since the start."""
        self._spinner.update(text=f"{time.monotonic() - self._began:.0f} s  {message}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._shown.is_set():
            self._shown.set()
            self.live.update(Text(""))
        self.live.__exit__(kind, error, traceback)

    def show(self, records: Sequence[CycleRecord]) -> None:
        """One cycle."""
        if records:
            self._shown.set()
            self.seconds = [*self.seconds, _seconds(records)][-20:]
            shown = table(records, self.cycles, self.seconds)
            for record in records:
                for sentence in [*self._news.of(record), *failures(record)]:
                    self._newest[record.arm] = f"cycle {record.cycle}, {sentence}"
            shown.caption = Text("\n".join(self._newest.values()))
            self.live.update(shown, refresh=True)

    def say(self, message: str) -> None:
        """A line above the table."""
        self.live.console.print(Text(redact(message)), soft_wrap=True)


def summary(record: CycleRecord) -> dict[str, Any]:
    """A record in short, for a program; numbers that are not finite are null."""
    best = winning_outcome(record)
    return {
        "cycle": record.cycle,
        "arm": record.arm,
        "events": record.chunk.events,
        "set_aside": record.chunk.set_aside,
        **asdict(count_outcomes(record)),
        "caution": record.caution,
        "winner": record.winner,
        "setting": asdict(best.setting) if best else None,
        "logloss": best.logloss if best else None,
        "served_logloss": _finite(record.served_logloss),
        "max_inf": _finite(record.norms.max_inf) if record.norms else None,
        "max_msqr": _finite(record.norms.max_msqr) if record.norms else None,
        "seconds": record.timings.get("cycle"),
        **_lines_summary(record),
    }


def _lines_summary(record: CycleRecord) -> dict[str, Any]:
    lines = record.lineages
    if lines is None:
        return {}
    return {
        "champion_line": lines.state.champion,
        "why": lines.why,
        "replaced": [asdict(one) for one in lines.replaced],
        **({"members": list(lines.state.members)} if lines.state.members else {}),
    }


def line(record: CycleRecord) -> str:
    """A record in short, for a person."""
    count, best = count_outcomes(record), winning_outcome(record)
    aside = sum(record.chunk.set_aside.values())
    skipped = [f"{aside} rows set aside"] if aside else []
    if not record.outcomes:
        return "  ".join([record.arm, "no events", *skipped])
    parts = [record.arm, f"retained {count.retained}/{count.launched}"]
    parts += [f"{name} {n}" for name in ("failed", "late") if (n := getattr(count, name))]
    if best is None:
        parts.append(_no_winner(record))
    else:
        parts += [f"logloss {best.logloss:.5f}", _winner(record, best)]
    if mean := mean_text(record):
        parts.append(f"serves {mean}")
    if record.caution:
        parts.append(f"drawn cautiously (level {record.caution})")
    return "  ".join(parts + skipped)


def failures(record: CycleRecord) -> list[str]:
    """Why instances failed, in one sentence; none where none did."""
    reasons = Counter(o.reason for o in record.outcomes if o.status is Status.FAILED)
    if not reasons:
        return []
    (reason, count), *others = reasons.most_common()
    more = f" (and {len(others)} more reason{'s' * (len(others) > 1)})" if others else ""
    noun = "instance" if count == 1 else "instances"
    return [f"{record.arm}: {count} {noun} failed: {' '.join(reason.split())}{more}"]


def table(records: Sequence[CycleRecord], cycles: int | None, seconds: Sequence[float]) -> Table:
    """The newest cycle; `seconds` are those of the last few cycles, newest last."""
    first = records[0]
    trained = sum(outcome.events_done for record in records for outcome in record.outcomes)
    title = [progress(first.cycle, cycles), f"{first.chunk.events:,} events"]
    if seconds[-1] > 0:
        title.append(f"{trained / seconds[-1]:,.0f} trained/s")
    if cycles is not None:
        left = (cycles - first.cycle - 1) * sum(seconds) / len(seconds)
        title.append(f"{duration(left)} left")
    grid = Table(title=" · ".join(title), title_justify="left", caption_justify="left")
    for heading in ("arm", "retained", "log-loss", "served", "champion"):
        grid.add_column(heading, no_wrap=heading != "champion")
    for record in records:
        grid.add_row(*_row(record))
    return grid


def _row(record: CycleRecord) -> list[Text]:
    count, best = count_outcomes(record), winning_outcome(record)
    served = _finite(record.served_logloss)
    fraction = count.retained_fraction
    colour = "dim" if fraction is None else "red" if fraction < 0.8 else "green"
    retained = Text(f"{bar(fraction or 0.0)} {count.retained}/{count.launched}", style=colour)
    champ = _winner(record, best) if best else _no_winner(record)
    champ += f", serves {mean}" if (mean := mean_text(record)) else ""
    return [
        Text(record.arm),
        retained,
        Text(f"{best.logloss:.5f}" if best else "-"),
        Text(f"{served:.5f}" if served is not None else "-"),
        Text(champ + (f" (caution {record.caution})" if record.caution else "")),
    ]


def _winner(record: CycleRecord, best: Outcome) -> str:
    """The setting of the winner, and which line it is."""
    line = champion_of(record)
    return ("" if line is None else f"line {line}: ") + setting_text(best.setting)


def _no_winner(record: CycleRecord) -> str:
    if not record.outcomes:
        return "no events"
    champion = champion_of(record)
    if champion in {o.instance for o in record.outcomes if o.status is Status.LATE}:
        return f"line {champion}, the champion, was late and skipped this chunk"
    return f"no instance retained, {'the champion stays' if record.model else 'no champion yet'}"


def bar(fraction: float) -> str:
    """A bar of fixed width."""
    full = round(fraction * BAR)
    return "█" * full + "░" * (BAR - full)


def progress(cycle: int, cycles: int | None) -> str:
    """The cycle by its number, from 0 on, and how far the run is with it.

    A run may have been resumed with more cycles than the config in its folder says.
    """
    known = cycles is not None and cycle < cycles
    return f"cycle {cycle} ({cycle + 1} of {cycles})" if known else f"cycle {cycle}"


def duration(seconds: float) -> str:
    """A rough time: "45 s", "12 min", "3.5 h"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _seconds(records: Sequence[CycleRecord]) -> float:
    return max(record.timings.get("cycle", 0.0) for record in records)


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None
