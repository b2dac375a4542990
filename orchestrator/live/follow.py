"""Follows a run: the report's page, made again when cycles commit, and the state of the run.

Reads the run folder alone, so it does not matter which driver writes it, or whether one does.
"""

import hashlib
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from divergence.errors import one_line
from orchestrator.journal.record import CycleRecord, count_outcomes, winning_outcome
from orchestrator.publish.state import published_state
from orchestrator.report.load import Loaded, Run, load_run, short_names
from orchestrator.report.write import compute, page_of
from orchestrator.storage.store import Store
from orchestrator.watch.console import duration
from orchestrator.watch.examine import examine
from orchestrator.watch.health import Health, reasons, state_of
from trainer.setting import PARAMETERS

COLUMNS = ("arm", "cycle", "retained", "last hour", "served log-loss", "constant CTR",
           "champion's setting", "trained again", "failed, late")  # fmt: skip
REST = 4.0
"""After a refresh it waits at least this many times as long as the refresh took."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the server answers with: the page, and the state as JSON, with the page's version."""

    page: bytes
    state: bytes


class RunFollower:
    """Keeps `shown` current in a thread of its own."""

    def __init__(
        self, store: Store, every_s: float, baseline: str | None, challenger: str | None
    ) -> None:
        """InputError where the run cannot be read now. Later its last state stays."""
        self._store, self._every_s = store, every_s
        self._arms = baseline, challenger
        self._run: Run | None = None
        self._page = b""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.shown = self._refreshed()

    def __enter__(self) -> "RunFollower":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(self._every_s)

    def _follow(self) -> None:
        rest_s = self._every_s
        while not self._stop.wait(rest_s):
            began = time.monotonic()
            try:
                self.shown = self._refreshed()
            except Exception as error:  # the page must not stay as it was without a word
                self.shown = Shown(self._page, self._problem(one_line(error)))
            rest_s = max(self._every_s, REST * (time.monotonic() - began))

    def _refreshed(self) -> Shown:
        known, name = self._run, short_names([self._store.uri])[0]
        run = load_run(self._store, name, known)
        if known is None or run.records != known.records or run.faults != known.faults:
            self._page = page_of(compute(Loaded((run,), ()), (), *self._arms), live=True).encode()
            self._run = run
        read = {
            (record.arm, record.cycle): record for own in run.records.values() for record in own
        }
        health = examine(self._store, run.config, read)
        newest = [records[-1] for records in run.records.values() if records]
        state, place = shown_state(health, newest), published_state(run.config)
        if place is not None and place.held:
            state["facts"].append(str(place))
        return Shown(self._page, self._state(state))

    def _state(self, state: dict[str, Any]) -> bytes:
        version = hashlib.sha256(self._page).hexdigest()[:16]
        return json.dumps({"version": version, **state}).encode()

    def _problem(self, reason: str) -> bytes:
        state = json.loads(self.shown.state)
        return self._state(state | {"state": "unknown", "reasons": [reason]})


def shown_state(health: Health, newest: Sequence[CycleRecord]) -> dict[str, Any]:
    """The state of a run in words, and a row for each arm of its newest record."""
    why = reasons(health)
    facts = [health.driver] if not health.complete else []
    if health.commit_age_s is not None:
        facts.append(f"last commit {duration(health.commit_age_s)} ago")
    if health.interval_s and health.working:
        facts.append(f"a cycle every {duration(health.interval_s)}")
    if health.lag_s is not None:
        facts.append(f"the newest trained event is {duration(health.lag_s)} old")
    return {
        "state": state_of(health, why),
        "reasons": why,
        "facts": facts,
        "columns": COLUMNS,
        "arms": [_row(health, record) for record in newest],
    }


def _row(health: Health, record: CycleRecord) -> list[str]:
    count, best = count_outcomes(record), winning_outcome(record)
    hour = health.arms.get(record.arm)
    setting = best.setting if best else None
    names = (*PARAMETERS, *(setting.others or {})) if setting else ()
    values = [(name, setting.value(name)) for name in names] if setting else []
    again = sum(outcome.tries - 1 for outcome in record.outcomes)
    return [
        record.arm,
        str(record.cycle),
        f"{count.retained} of {count.launched}",
        _number(hour.retained_fraction if hour else None, ".1%"),
        _number(record.served_logloss, ".5f"),
        _number(record.chunk.constant_logloss, ".5f"),
        ", ".join(f"{name} {value:.3g}" for name, value in values if value is not None) or "-",
        str(again),
        f"{hour.failed}, {hour.late}" if hour else "-",
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"
