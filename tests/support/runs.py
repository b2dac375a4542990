"""Small runs in this process, and what is looked at after a run, wherever it was trained."""

import threading
from collections.abc import Sequence
from pathlib import Path

from orchestrator.config.schema import LineagesSelect, RunConfig
from orchestrator.journal.journal import cycles_of, read_record
from orchestrator.journal.record import CycleRecord, reproducible_part
from orchestrator.journal.run_folder import prepare
from orchestrator.loop.run import Ended, run
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.pool.local_pool import LocalPool
from orchestrator.pool.protocol import MakePool
from orchestrator.storage.open import open_store
from orchestrator.storage.store import Store, read


class Heard:
    """A view that keeps what it is shown."""

    def __init__(self, stop: threading.Event | None = None, stop_after: int | None = None) -> None:
        self.records: list[CycleRecord] = []
        self.messages: list[str] = []
        self.stop, self.stop_after = stop, stop_after

    def __enter__(self) -> "Heard":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, records: Sequence[CycleRecord]) -> None:
        self.records += records
        if self.stop is not None and records and records[0].cycle == self.stop_after:
            self.stop.set()

    def say(self, message: str) -> None:
        self.messages.append(message)


def go_here(
    config: RunConfig,
    where: Path | str,
    view: Heard | None = None,
    stop: threading.Event | None = None,
) -> Ended:
    """A run without Ray: it gives the same bits, and starts no process."""
    lines = isinstance(config.search.select, LineagesSelect)
    return go_with(LocalLinePool if lines else LocalPool, config, where, view, stop)


def go_with(
    make_pool: MakePool,
    config: RunConfig,
    where: Path | str,
    view: Heard | None,
    stop: threading.Event | None,
) -> Ended:
    """A run, resumed if it has begun, which the view hears of."""
    store = open_store(str(where))
    start = prepare(store, config)
    view = view or Heard()
    for message in start.messages:
        view.say(message)
    return run(config, store, start, [view.show], make_pool, stop)


def records(where: Path | str, arm: str) -> list[CycleRecord]:
    store = open_store(str(where))
    return [read_record(store, arm, cycle) for cycle in cycles_of(store, arm)]


def bits(where: Path | str, config: RunConfig) -> dict[str, object]:
    """All that two runs of the same bits have in common: records less the clock, model bytes."""
    store: Store = open_store(str(where))
    found: dict[str, object] = {}
    for arm in config.arms:
        for record in records(where, arm.name):
            found[f"{arm.name} {record.cycle}"] = reproducible_part(record).model_dump_json()
        for kind in ("models", "lines"):
            for name in store.names(f"{kind}/{arm.name}"):
                found[kind + name + arm.name] = read(store, f"{kind}/{arm.name}/{name}")
    return found
