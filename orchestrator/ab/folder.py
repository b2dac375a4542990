"""The folder of an A/B test: its config, and a file for each finished trial."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from divergence.errors import InputError
from orchestrator.ab.config import AbConfig
from orchestrator.ab.counts import Counts, Day, Finished, InstanceCounts, Trial
from orchestrator.ab.section import ab
from orchestrator.ab.summary import summarise
from orchestrator.config.file import config_text, read_as_config
from orchestrator.report.section import Section
from orchestrator.storage.checksummed import CorruptError, dumps, loads
from orchestrator.storage.store import Store, read

CONFIG = "ab.yaml"


def prepare(store: Store, config: AbConfig) -> None:
    """Create the folder; InputError if it holds a test whose config differs in more than seeds."""
    if CONFIG in store.names(""):
        if _identity(ab_config(store)) != _identity(config):
            raise InputError(
                f"{store.uri}: holds an A/B test with a different config; use that config, or "
                "another --out"
            )
    else:
        store.create(CONFIG, config_text(config).encode())


def ab_config(store: Store) -> AbConfig:
    """The config that the test in this folder was started with."""
    try:
        text = read(store, CONFIG).decode()
    except FileNotFoundError:
        raise InputError(
            f"{store.uri}: not the folder of an A/B test: it has no {CONFIG}"
        ) from None
    except UnicodeDecodeError:
        raise InputError(f"{store.uri}/{CONFIG}: must be UTF-8 text, but is not") from None
    return read_as_config(AbConfig, text, f"{store.uri}/{CONFIG}")


def save(store: Store, seed: int, finished: Finished) -> None:
    """Write a finished trial as one immutable file with a checksum."""
    store.create(_path(seed), dumps(asdict(finished)))


def finished_seeds(store: Store) -> list[int]:
    """The seeds whose trials are finished."""
    names = (name.removeprefix("seed-").removesuffix(".json") for name in store.names("trials"))
    return sorted(int(name) for name in names if name.isdecimal())


def load(store: Store) -> list[Finished]:
    """All finished trials, by seed."""
    finished = list(_load_each(store))
    if not finished:
        raise InputError(f"{store.uri}: no trial is finished yet")
    return finished


def ab_section(store: Store) -> Section:
    """The section of the report about the test in this folder."""
    finished = load(store)
    return ab(summarise([one.trial for one in finished]), lost_shares(finished))


def lost_shares(finished: Sequence[Finished]) -> list[tuple[float, float]]:
    """For each trial, the shares of instances that diverged: control, treatment."""
    return [(one.tallies[0].lost, one.tallies[1].lost) for one in finished]


def _load_each(store: Store) -> Iterator[Finished]:
    for seed in finished_seeds(store):
        try:
            name = f"{store.uri}/{_path(seed)}"
            yield _finished(loads(read(store, _path(seed)), name), name)
        except CorruptError as fault:
            raise InputError(f"{fault}; delete it and run the test again") from None


def _finished(data: Any, name: str) -> Finished:
    try:
        return _parsed(data)
    except (LookupError, TypeError, ValueError):
        raise CorruptError(f"{name}: not a finished trial") from None


def _parsed(data: Any) -> Finished:
    trial = data["trial"]
    days = tuple(
        Day(day["day"], Counts(**day["control"]), Counts(**day["treatment"]))
        for day in trial["days"]
    )
    control, treatment = (InstanceCounts(**tally) for tally in data["tallies"])
    names = trial["name"], trial["control"], trial["treatment"]
    return Finished(Trial(*names, days), (control, treatment))


def _path(seed: int) -> str:
    return f"trials/seed-{seed:010d}.json"


def _identity(config: AbConfig) -> str:
    """Everything that decides the outcome of a trial, except its seed."""
    return config.model_copy(update={"seeds": (0,)}).model_dump_json()
