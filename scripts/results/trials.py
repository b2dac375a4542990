"""Rules measured side by side in memory: the product's own arms and pools, without Ray or files.

A trial is one rule under one selection on one stream. Its result is a small file, so that the same
command resumes after a stop. The arms of a stream see the same chunks and the same draws.
"""

import hashlib
import json
import multiprocessing
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from orchestrator.config.schema import ArmConfig, LineagesSelect, RunConfig, SearchConfig
from orchestrator.journal.models import model_config
from orchestrator.loop.arm_state import ArmState
from orchestrator.loop.lines_arm import LinesArm
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.pool.local_pool import LocalPool
from orchestrator.pool.messages import ArmResult
from orchestrator.pool.protocol import Pool
from orchestrator.search.sampler import cycle_rng, draw_quantiles
from orchestrator.watch.console import duration
from scripts.bench.regrets.streams import Size, Stream, open_stream
from trainer.model import Model
from trainer.outcome import Status

SELECTIONS = ("champion", "lineages")
EVENT_S = 0.6e-6
"""About what an event takes, per instance: training, and its share of everything else."""


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """One rule under one selection on one stream."""

    stream: str
    seed: int
    select: str
    name: str
    """Of the rule, as the table shows it."""
    rule: Mapping[str, Any]
    size: Size
    instances: int = 16
    width: float = 30.0
    """How far eta0 and alpha are drawn from the champion's, where the champion is broadcast."""

    def path(self, out: Path) -> Path:
        """The file of its result; another rule, size or width gives another file."""
        text = json.dumps(asdict(self), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = self.name.replace(" ", "")
        return out / f"{self.stream}-{self.seed}-{self.select}-{name}-{digest}.json"

    def config(self, stream: Stream) -> RunConfig:
        """The stream's config with this search and this arm."""
        steps = {"eta0": self.width, "alpha": self.width}
        sampler = {"kind": "adaptive", "spread": steps}
        search = {"instances": self.instances, "sampler": sampler, "select": {"kind": self.select}}
        arm = ArmConfig.model_validate({"name": "measured", "rule": dict(self.rule)})
        changes = {"search": SearchConfig.model_validate(search), "arms": (arm,)}
        return stream.config.model_copy(update=changes)

    @property
    def seconds(self) -> float:
        """A guess of its time on a quiet core."""
        return self.size.cycles * self.size.events * self.instances * EVENT_S


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a trial gave: sums over its instances, and the served log-loss of each chunk."""

    events: list[int]
    constant: list[float]
    served: list[float | None]
    retained: list[int]
    diverged: list[int]
    useful: list[int]
    work: list[int]
    """Events that instances trained on, those of lost instances included."""
    lost_work: list[int]
    """Events that instances trained on before they diverged."""


def train_in_memory(config: RunConfig, stream: Stream) -> Iterator[ArmResult]:
    """The results of the only arm, cycle by cycle, as `run_cycle` gets them; nothing is written."""
    (arm,) = config.arms
    lines = isinstance(config.search.select, LineagesSelect)
    model = Model(model_config(config, stream.spec))
    state = LinesArm(config, arm, model, _no_file) if lines else ArmState(config, arm, model)
    made: Pool = (LocalLinePool if lines else LocalPool)(state.trainer, [state.sample_rule])
    with closing(made) as pool:
        for prepared in stream.chunks:
            draws = draw_quantiles(config, prepared.cycle, cycle_rng(config.seed, prepared.cycle))
            plan = state.plan(prepared, draws, None)
            pool.start([state.progress(plan, pool.share)])
            for result in pool.results():
                state.adopt(plan, result)
                yield result


def _no_file(file: object) -> bytes:
    raise AssertionError(f"{file}: a run that starts anew reads no files")


def measure(trial: RuleTrial, stream: Stream) -> TrialResult:
    """Run a trial on its stream."""
    infos = [one.info for one in stream.chunks]
    found = TrialResult(
        [i.events for i in infos], [i.constant_logloss for i in infos], [], [], [], [], [], []
    )
    results = train_in_memory(trial.config(stream), stream)
    for constant, result in zip(found.constant, results, strict=True):
        alive = [o for o in result.outcomes if o.status is Status.RETAINED]
        lost = [o for o in result.outcomes if o.status is Status.DIVERGED]
        found.served.append(result.served)
        found.retained.append(len(alive))
        found.diverged.append(len(lost))
        found.useful.append(sum(o.logloss < constant for o in alive))
        found.work.append(sum(o.events_done for o in result.outcomes))
        found.lost_work.append(sum(o.events_done for o in lost))
    return found


def run_trials(trials: Sequence[RuleTrial], out: Path, processes: int, data: Path) -> None:
    """Run what is not finished yet, several streams at a time, and say how far it is."""
    missing = [trial for trial in trials if not trial.path(out).exists()]
    groups: dict[tuple[str, int, Size], list[RuleTrial]] = {}
    for trial in missing:
        groups.setdefault((trial.stream, trial.seed, trial.size), []).append(trial)
    total = sum(trial.seconds for trial in missing)
    click.echo(
        f"{len(trials)} trials, {len(trials) - len(missing)} of them done; the others take about "
        f"{duration(total / processes)} with {processes} processes on quiet cores"
    )
    if not missing:
        return
    out.mkdir(parents=True, exist_ok=True)
    began, done = time.monotonic(), 0.0
    context = multiprocessing.get_context("spawn")  # threads and numba do not survive a fork
    with context.Pool(processes, _ignore_interrupts, maxtasksperchild=1) as pool:
        tasks = [(group, out, data) for group in groups.values()]
        try:
            for group in pool.imap_unordered(_train_group, tasks):
                done += sum(trial.seconds for trial in group)
                spent = time.monotonic() - began
                left = max(0.0, spent * (total / done - 1))
                click.echo(
                    f"[{done / total:.0%}, {duration(spent)}, about {duration(left)} left] "
                    f"{group[0].stream}, seed {group[0].seed}: {len(group)} trials"
                )
        except KeyboardInterrupt:
            raise click.ClickException("stopped; the same command resumes it") from None


def _train_group(task: tuple[list[RuleTrial], Path, Path]) -> list[RuleTrial]:
    """All trials of one stream, which is read once."""
    group, out, data = task
    first = group[0]
    stream = open_stream(first.stream, first.seed, first.size, data)
    for trial in group:
        path = trial.path(out)
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(asdict(measure(trial, stream))), encoding="utf-8")
        beside.replace(path)  # all or nothing, so that a stop leaves no half result
    return group


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers


def read_result(trial: RuleTrial, out: Path) -> TrialResult:
    """The result of a finished trial."""
    return TrialResult(**json.loads(trial.path(out).read_text(encoding="utf-8")))


def row_of(trial: RuleTrial, result: TrialResult, warm_up: float = 0.25) -> dict[str, Any]:
    """A row of the table: means over the cycles after the first quarter.

    The first models know nothing, and the first draws come from the full ranges.
    """
    first = int(len(result.events) * warm_up)
    cycles = range(first, len(result.events))
    weight = sum(result.events[i] for i in cycles)
    served = sum(result.events[i] * _served(result, i) for i in cycles) / weight
    constant = sum(result.events[i] * result.constant[i] for i in cycles) / weight
    decided = [result.retained[i] + result.diverged[i] for i in cycles]
    return {
        "stream": trial.stream,
        "seed": trial.seed,
        "select": trial.select,
        "rule": trial.name,
        "served_logloss": served,
        "gain": 1 - served / constant,
        "retained": sum(result.retained[first:]) / sum(decided),
        "useful": sum(result.useful[first:]) / sum(decided),
        "compute_lost": sum(result.lost_work[first:]) / sum(result.work[first:]),
    }


def _served(result: TrialResult, cycle: int) -> float:
    """Where there was no model yet, a constant CTR would have been served."""
    found = result.served[cycle]
    return result.constant[cycle] if found is None else found
