"""Runs that serve the mean of several lines: the same bits on resume, whatever happens."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from orchestrator.config.schema import PublishConfig, RunConfig
from orchestrator.journal.models import read_model, served_config
from orchestrator.journal.record import CycleRecord, LinesRecord
from orchestrator.journal.run_folder import prepare
from orchestrator.loop import lines_arm
from orchestrator.loop.run import run
from orchestrator.offline.replay import replay
from orchestrator.offline.score_files import champion_of
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.pool.lines.progress import LinesProgress
from orchestrator.pool.messages import LineBatch, LineReply
from orchestrator.publish.follower import Follower
from orchestrator.publish.origin import open_origin
from orchestrator.publish.publisher import Publisher
from orchestrator.sources.opening import resolve_spec
from orchestrator.sources.protocol import Events
from orchestrator.sources.simulator.source import Simulator
from orchestrator.storage.open import open_store
from support.configs import small
from support.runs import bits, go_here, records
from trainer.chunk import Chunk, compile_chunk
from trainer.lines import Lines
from trainer.mean_model import mean_model
from trainer.model import Model
from trainer.modelfile import save_model
from trainer.scoring import log_loss, predict

MEAN = ("search.select={kind: lineages, replace_every: [1, 2], start: {eta0: 6}}",
        "source.events_per_cycle=150", "source.ads=1000", "serve.mean_of=3",
        "search.ranges.eta0={low: 0.03, high: 300}")  # fmt: skip
LATER = "arms.1.start_from={arm: production, cycle: 4}"


@pytest.fixture(autouse=True)
def many_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_arm, "SNAPSHOT_CYCLES", 3)


def lines_of(record: CycleRecord) -> LinesRecord:
    assert record.lineages is not None
    return record.lineages


def served_model(where: Path, config: RunConfig, record: CycleRecord) -> Model:
    spec = resolve_spec(config.source, None)
    return read_model(open_store(str(where)), record.model, served_config(config, spec))


class Watched(LocalLinePool):
    """Notes the mean of the members' models after each cycle, from the lines themselves."""

    made: list[tuple[Model, Chunk]]

    def results(self):  # type: ignore[no-untyped-def]
        for result in super().results():
            (arm,) = self._arms
            lines = self._trainer.lines[arm.name]
            parents = {one.line: one.parent for one in result.judgement.replaced}
            state = result.judgement.state
            models = [lines.as_model(parents.get(i, i)) for i in state.members]
            self.made.append((mean_model(models), arm.chunk))
            yield result
