"""A run's folder at the start of a run: new, or one to go on with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from divergence.errors import InputError
from orchestrator.config.file import config_text, read_config
from orchestrator.config.schema import RunConfig, config_hash, identity
from orchestrator.journal.journal import cycles_of, newest_committed, set_aside_after
from orchestrator.journal.record import CycleRecord
from orchestrator.storage.store import Store, read

CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True)
class Start:
    """Where a run begins: its first cycle to train, the records before it, and what to tell."""

    cycle: int
    records: Mapping[str, CycleRecord]
    messages: tuple[str, ...]


def run_config(store: Store) -> RunConfig:
    """The config that the run in this folder was begun with."""
    try:
        text = read(store, CONFIG).decode()
    except FileNotFoundError:
        raise InputError(f"{store.uri}: is no run: it has no {CONFIG}") from None
    except UnicodeDecodeError:
        raise InputError(f"{store.uri}/{CONFIG}: must be UTF-8 text, but is not") from None
    return read_config(text, f"{store.uri}/{CONFIG}")


def must_hold_run(store: Store) -> None:
    """InputError where there is nothing to resume."""
    if CONFIG not in store.names(""):
        raise InputError(f"{store.uri}: there is no run to resume: it has no {CONFIG}")


def prepare(store: Store, config: RunConfig) -> Start:
    """Make the folder, or find where the run in it stands and clear the way for the next cycle."""
    there = CONFIG in store.names("")
    if there and not _begun(store):  # a start that failed has decided nothing
        if read(store, CONFIG).decode() != config_text(run_config(store)):
            raise InputError(
                f"{store.uri}/{CONFIG}: would be overwritten, but was not written by a run: "
                "use another --out"
            )
        store.delete(CONFIG)
        there = False
    if there:
        _check_same(store, run_config(store), config)
    else:
        store.create(CONFIG, config_text(config).encode())
    arms = {arm.name: arm.first_cycle for arm in config.arms}
    found = newest_committed(store, arms)
    begun = max((cycle for arm in arms for cycle in cycles_of(store, arm)), default=0)
    if found.cycle < 0 and begun > 0:
        raise InputError(
            f"{store.uri}: no cycle can be resumed: {found.passed_over[0]}; "
            "restore the file, or begin anew in another folder"
        )
    moved = set_aside_after(store, arms, found.cycle)
    messages = [*found.passed_over, *(f"{path}: set aside" for path in moved)]
    return Start(found.cycle + 1, found.records, tuple(messages))


def _begun(store: Store) -> bool:
    """Whether any cycle has left something in the journal."""
    return any(cycles_of(store, arm.name) for arm in run_config(store).arms)


def _check_same(store: Store, begun: RunConfig, config: RunConfig) -> None:
    if config_hash(begun) == config_hash(config):
        return
    old, new = (dict(_leaves(identity(c), "")) for c in (begun, config))
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    told = "; ".join(f"{k} was {old.get(k)!r}, now is {new.get(k)!r}" for k in changed[:3])
    raise InputError(
        f"{store.uri}: holds a run with another config ({told}): use that, or another --out"
    )


def _leaves(data: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, dict | list) and data:
        items = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in items:
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, data
