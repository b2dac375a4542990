"""How long a cycle of a config takes, from a short measurement of this machine's speed."""

import math
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from orchestrator.config.rules import any_kernel_rule, initial_mu
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.journal.models import model_config
from orchestrator.sources.opening import resolve_spec
from trainer.chunk import compile_chunk
from trainer.features import FeatureSpec
from trainer.instance import Buffers, Job, train, warm_up
from trainer.model import Model
from trainer.setting import Setting

SAMPLE = 20_000
"""Events of the measurement, where their vectors fit `ENTRIES`."""
ENTRIES = 20_000_000
PASSES = 5
VALUES = 2_000
"""Values of a feature in the measurement; half of the events have one of the first few dozen."""
EFFICIENCY = 0.9
"""The share of the cores' time that goes into training: 0.90 to 0.97 in scripts/bench/README.md."""
SETTING = Setting(1e-3, 1.0, 0.5)
"""Steps so small that no instance diverges in the measurement."""


@dataclass(frozen=True, slots=True)
class CycleTime:
    """What a cycle does, and the measured speed."""

    instances: int
    arms: int
    events: int
    cores: int
    event_s: float
    """Seconds per event and instance."""

    @property
    def seconds(self) -> float:
        """The duration of a cycle: every core trains one instance after the other."""
        rounds = math.ceil(self.instances * self.arms / self.cores)
        return rounds * self.events * self.event_s / EFFICIENCY

    @property
    def core_hours(self) -> float:
        """All cores for the whole cycle: an idle core costs as much as a busy one."""
        return self.cores * self.seconds / 3600


def cycle_time(config: RunConfig, events: int, cores: int) -> CycleTime:
    """Measure with the geometry of the config and the rule of its first arm, in about a second.

    The kernel is compiled first where this machine has not done so yet; the run needs it anyway.
    """
    arms = len(config.arms)
    return CycleTime(config.search.instances, arms, events, cores, event_seconds(config, events))


def event_seconds(config: RunConfig, events: int) -> float:
    """Seconds per event and instance, on one core that has nothing else to do."""
    spec = resolve_spec(config.source, feature_spec(config.features))
    model = Model(model_config(config, spec))
    job = Job(spec, model.shape, config.model.tau)
    width = (len(spec.user) + len(spec.ad)) * model.shape.ad
    size = max(16, min(events, SAMPLE, ENTRIES // width))
    chunk = compile_chunk(_sample(spec, size), spec)
    rule = config.arms[0].rule
    start = model.gather(chunk, 0, mu0=initial_mu(rule)).tables
    kernel, buffers = any_kernel_rule(rule), Buffers()
    warm_up(job, kernel)

    def one_pass() -> float:
        begin = time.thread_time()  # of the CPU: other processes on this core do not count
        outcome = train(job, chunk, start, SETTING, kernel, buffers=buffers).outcome
        return (time.thread_time() - begin) / max(outcome.events_done, 1)

    return min(one_pass() for _ in range(PASSES))


def _sample(spec: FeatureSpec, size: int) -> pa.Table:
    """Events whose features have heavy-tailed values; a multi-valued feature has three."""
    draw = np.random.default_rng(0)
    columns: dict[str, object] = {spec.label: (draw.random(size) < 0.1).astype(np.uint8)}
    if spec.timestamp is not None:
        columns[spec.timestamp] = np.arange(size, dtype=np.int64)
    for feature in spec.features:
        count = size * 3 if feature.multi else size
        values = pa.array(np.floor(VALUES ** draw.random(count)).astype(np.int64)).cast(pa.string())
        ends = pa.array(np.arange(0, count + 1, 3, dtype=np.int32)) if feature.multi else None
        columns[feature.name] = values if ends is None else pa.ListArray.from_arrays(ends, values)
        if feature.weights is not None and ends is not None:
            columns[feature.weights] = pa.ListArray.from_arrays(ends, pa.array(np.ones(count)))
    return pa.table(columns)
