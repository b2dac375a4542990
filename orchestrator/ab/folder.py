"""The folder of an A/B test: its config, and a file for each finished trial."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from divergence.errors import InputError
from orchestrator.ab.config import AbConfig
from orchestrator.ab.counts import (
    DESIGNS,
    Counts,
    Day,
    Design,
    Finished,
    InstanceCounts,
    Trial,
)
from orchestrator.ab.section import ab
from orchestrator.ab.summary import Summary, summarise
from orchestrator.config.file import config_text, read_as_config
from orchestrator.report.section import Section
from orchestrator.storage.checksummed import CorruptError, dumps, loads
from orchestrator.storage.store import Store, read

CONFIG = "ab.yaml"
PREFIX: dict[Design, str] = {"split": "seed-", "twins": "twins-seed-"}
"""How the names of the trials' files begin; the versions before twins knew the first."""


def prepare(store: Store, config: AbConfig) -> None:
    """Create the folder; InputError if its test differs in more than seeds and design."""
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
    store.create(_path(finished.trial.design, seed), dumps(asdict(finished)))


def finished_seeds(store: Store, design: Design) -> list[int]:
    """The seeds whose trials in this design are finished."""
    prefix = PREFIX[design]
    names = [name for name in store.names("trials") if name.startswith(prefix)]
    seeds = (name.removeprefix(prefix).removesuffix(".json") for name in names)
    return sorted(int(seed) for seed in seeds if seed.isdecimal())


def load(store: Store) -> list[Finished]:
    """All finished trials, by design and seed."""
    finished = list(_load_each(store))
    if not finished:
        raise InputError(f"{store.uri}: no trial is finished yet")
    return finished


def summaries(finished: Sequence[Finished]) -> list[Summary]:
    """The analysis of each design that has finished trials."""
    found = []
    for design in DESIGNS:
        own = [one for one in finished if one.trial.design == design]
        if own:
            lost = tuple((one.tallies[0].lost, one.tallies[1].lost) for one in own)
            found.append(summarise([one.trial for one in own], lost))
    return found


def ab_sections(store: Store) -> list[Section]:
    """The sections of the report about the test in this folder, one for each design."""
    return [ab(summary) for summary in summaries(load(store))]


def _load_each(store: Store) -> Iterator[Finished]:
    for design, seed in ((d, seed) for d in DESIGNS for seed in finished_seeds(store, d)):
        try:
            path = _path(design, seed)
            yield _finished(loads(read(store, path), f"{store.uri}/{path}"), f"{store.uri}/{path}")
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
        Day(
            day["day"],
            Counts(**day["control"]),
            Counts(**day["treatment"]),
            tuple((Counts(**old), Counts(**new)) for old, new in day.get("cycles", ())),
        )
        for day in trial["days"]
    )
    control, treatment = (InstanceCounts(**tally) for tally in data["tallies"])
    names = trial["name"], trial["control"], trial["treatment"]
    design = trial.get("design", "split")  # trials of older versions do not say
    if design not in DESIGNS:
        raise ValueError(design)
    return Finished(Trial(*names, days, design), (control, treatment))


def _path(design: Design, seed: int) -> str:
    return f"trials/{PREFIX[design]}{seed:010d}.json"


def _identity(config: AbConfig) -> str:
    """Everything that decides the outcome of a trial, except its seed and its design."""
    return config.model_copy(update={"seeds": (0,), "design": "split"}).model_dump_json()
