"""The streams of the regret benchmark: compiled chunks in memory, the same for every method.

Simulated markets are of the calibrated kind (`signal: criteo`): 18 hours of 15-minute cycles. The
market `switching` is calm for two days and stormy for the next two: its cycles take 160 minutes, so
that a run of 72 cycles meets three switches, 18 cycles apart. Calm and stormy are two markets of
one seed, with the same users, advertisers and categories, and the same constant part of all tastes;
what is on sale differs, and goes on changing while the other market has its turn.

A real stream has no seed: there, a seed varies the first vectors and the draws of a method only.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from orchestrator.config.file import load_config, read_config
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.loop.prefetch import PreparedChunk, prepare_chunk
from orchestrator.sources.opening import open_source
from orchestrator.sources.protocol import Events, Source
from scripts.results.readme import ROOT
from trainer.features import FeatureSpec

DAYS = 2
"""How long `switching` stays calm, and then stormy."""
DATA = ROOT / "data"


@dataclass(frozen=True, slots=True)
class Size:
    """How long the simulated streams are."""

    cycles: int = 72
    events: int = 10_000
    """The mean of a cycle; the time of day moves it by half."""


@dataclass(frozen=True)
class Stream:
    """A stream that a method is measured on."""

    name: str
    seed: int
    """That of the market, and of everything that a method draws."""
    config: RunConfig
    """Its features, its model and its seed. Methods change `search` and `arms`."""
    spec: FeatureSpec
    chunks: tuple[PreparedChunk, ...]
    """The cycles that have events, in order."""
    events: Callable[[int], Events | None]
    """The events of a cycle as a table, for methods with a model of their own."""

    @property
    def clicks(self) -> int:
        """How many clicks it has."""
        return sum(one.info.clicks for one in self.chunks)


def stream_names(data: Path = DATA) -> tuple[str, ...]:
    """The streams that can be had on this machine."""
    real = [name for name in _REAL if (data / f"{name}.parquet").exists()]
    return (*_SIMULATED, *real)


def open_stream(name: str, seed: int, size: Size | None = None, data: Path = DATA) -> Stream:
    """One of `stream_names`, read and compiled: some 150 MB."""
    size = size or Size()
    if name in _REAL:
        path = data / f"{name}.parquet"
        config = load_config(str(ROOT / _REAL[name]), (f"source.path={path}", f"seed={seed}"))
        source = open_source(config.source, feature_spec(config.features))
        return _compiled(name, seed, config, source)
    configs = [_market(preset, seed, size, minutes) for preset, minutes in _SIMULATED[name]]
    sources = [open_source(config.source, None) for config in configs]
    turn = DAYS * 24 * 60 // _SIMULATED[name][0][1]
    return _compiled(name, seed, configs[0], _InTurn(sources, turn, size.cycles))


_SIMULATED: Mapping[str, tuple[tuple[str, int], ...]] = {
    "calm": (("calm", 15),),
    "normal": (("normal", 15),),
    "stormy": (("stormy", 15),),
    "switching": (("calm", 160), ("stormy", 160)),
}
"""The presets that take turns, and the minutes of a cycle."""
_REAL = {"movielens-100k": "configs/movielens-100k.yaml"}
"""The data sets of `holdfast data fetch`, and their configs."""


def _market(preset: str, seed: int, size: Size, minutes: int) -> RunConfig:
    source = (
        f"{{kind: simulator, preset: {preset}, signal: criteo, seed: {seed}, "
        f"events_per_cycle: {size.events}, cycle_minutes: {minutes}}}"
    )
    text = f"seed: {seed}\nsource: {source}\narms: [{{name: any, rule: none}}]\n"
    return read_config(text, f"{preset} market")


@dataclass(frozen=True)
class _InTurn:
    """Sources that take turns, each for some cycles; none stops while another has its turn."""

    sources: list[Source]
    turn: int
    cycles: int

    @property
    def spec(self) -> FeatureSpec:
        return self.sources[0].spec

    def events(self, cycle: int) -> Events | None:
        if cycle >= self.cycles:
            return None
        return self.sources[cycle // self.turn % len(self.sources)].events(cycle)


def _compiled(name: str, seed: int, config: RunConfig, source: Source) -> Stream:
    chunks = tuple(
        prepare_chunk(events, source.spec, lambda chunk: chunk)
        for events in _all_events(source)
        if len(events.table)
    )
    return Stream(name, seed, config, source.spec, chunks, source.events)


def _all_events(source: Source) -> Iterator[Events]:
    cycle = 0
    while (events := source.events(cycle)) is not None:
        yield events
        cycle += 1
