"""The run folder at the start of a run: create it, or find the cycle to resume at."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from divergence.errors import InputError
from orchestrator.config.file import config_text, read_config
from orchestrator.config.schema import RunConfig, config_hash, identity
from orchestrator.journal.journal import cycles_of, newest_committed, set_aside_uncommitted
from orchestrator.journal.record import CorruptError, CycleRecord
from orchestrator.storage.store import Store, read
from orchestrator.validation.errors import cut
from orchestrator.validation.yaml import MAX_LENGTH

CONFIG = "config.yaml"
MAX_BYTES = 4 * MAX_LENGTH
"""The most that is read of a config, in UTF-8."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The first cycle to train, the records of the cycle before it, and messages for the user."""

    cycle: int
    records: Mapping[str, CycleRecord]
    messages: tuple[str, ...]


def run_config(store: Store) -> RunConfig:
    """The config that the run in this folder was started with."""
    try:
        text = read(store, CONFIG, MAX_BYTES).decode()
    except CorruptError as error:
        raise InputError(f"{store.uri}/{error}") from None
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{store.uri}: not a run folder: it has no {CONFIG}") from None
    except UnicodeDecodeError:
        raise InputError(f"{store.uri}/{CONFIG}: must be UTF-8 text, but is not") from None
    return read_config(text, f"{store.uri}/{CONFIG}")


def require_run(store: Store) -> None:
    """InputError if the folder has no run to resume."""
    if CONFIG not in store.names(""):
        raise InputError(f"{store.uri}: cannot resume: not a run folder (it has no {CONFIG})")


def prepare(store: Store, config: RunConfig) -> ResumePoint:
    """Create the run folder, or find the cycle to resume at and set newer records aside."""
    _delete_temporary(store, config)
    exists = CONFIG in store.names("")
    if exists and not _has_records(store):  # a failed start: another config may replace it
        if read(store, CONFIG, MAX_BYTES).decode() != config_text(run_config(store)):
            raise InputError(
                f"{store.uri}/{CONFIG}: a run must not overwrite it, because no run wrote it: use "
                "another --out"
            )
        store.delete(CONFIG)
        exists = False
    if exists:
        _check_same_config(store, run_config(store), config)
    else:
        store.create(CONFIG, config_text(config).encode())
    arms = {arm.name: arm.first_cycle for arm in config.arms}
    found = newest_committed(store, arms)
    newest = max((cycle for arm in arms for cycle in cycles_of(store, arm)), default=0)
    if found.cycle < 0 and newest > 0:
        raise InputError(
            f"{store.uri}: cannot resume, no cycle is complete: {found.skipped[0]}; "
            "restore the file, or start again in another folder"
        )
    moved = set_aside_uncommitted(store, arms, found.cycle)
    messages = [*found.skipped, *(f"{path}: moved to set-aside/" for path in moved)]
    return ResumePoint(found.cycle + 1, found.records, tuple(messages))


def _delete_temporary(store: Store, config: RunConfig) -> None:
    """Delete what a killed driver was writing. Its lease is ours now."""
    store.delete_temporary("", CONFIG)
    for arm in config.arms:
        for folder in ("journal", "models", "lines", "set-aside/journal"):
            store.delete_temporary(f"{folder}/{arm.name}")


def _has_records(store: Store) -> bool:
    """Whether the journal has a record, valid or not."""
    return any(cycles_of(store, arm.name) for arm in run_config(store).arms)


def _check_same_config(store: Store, original: RunConfig, config: RunConfig) -> None:
    if config_hash(original) == config_hash(config):
        return
    old, new = (dict(leaves(identity(c))) for c in (original, config))
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    differences = "; ".join(_difference(key, old, new) for key in changed[:3])
    raise InputError(
        f"{store.uri}: holds a run with another config ({differences}): use that config, or "
        "another --out"
    )


def _difference(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    path = key.split(".")
    arm = old.get(f"arms.{path[1]}.name") if path[0] == "arms" and path[2:] != ["name"] else None
    of_arm = f" (arm {arm})" if arm is not None else ""
    return f"{key}{of_arm} was {cut(repr(old.get(key)))}, is now {cut(repr(new.get(key)))}"


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings and lists, each with its dotted path."""
    if isinstance(data, dict | list) and data:
        items = data.items() if isinstance(data, dict) else enumerate(data)
        for key, value in items:
            yield from leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, data
