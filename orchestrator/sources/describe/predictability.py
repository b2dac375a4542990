"""How predictable the clicks of a stream are: the gain of a reference model over a constant CTR.

The gain is 1 - log-loss of the model / log-loss of a constant CTR. One OFFSET model with one fixed
setting passes over the stream once. Each cycle is scored before the model trains on it. The first
quarter of the cycles is not counted, and the constant is the CTR of the counted events, which only
hindsight knows. The setting is not tuned, so a tuned model does better: the number compares
streams.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from divergence.bound import rho0
from divergence.rules import make_rule
from orchestrator.sources.protocol import Events
from orchestrator.sources.public_logs import public_logs
from trainer.chunk import Chunk, compile_chunk
from trainer.features import FeatureSpec
from trainer.instance import Buffers, Job, train
from trainer.model import Model, ModelConfig
from trainer.outcome import Status
from trainer.scoring import log_loss, predict
from trainer.setting import setting_of

MIN_CLICKS = 500
"""Fewer clicks, or fewer events without one, do not tell: the gain would be off by over a point."""

OVERLAP, ALONE, INIT_STD = 2, 2, 0.3
STEPS = {"eta0": 1.2, "alpha": 1.0, "beta": 0.7}
K, DUAL_STEP, MU = 0.1, 100.0, 1e-4
"""Entropic dual ascent with rho = K * rho0; MU is both where multipliers start and their floor."""
EXPIRE_AFTER = 96


@dataclass(frozen=True, slots=True)
class Predictability:
    """The gains over a constant CTR on the counted events; None where `unknown` says why not."""

    events: int
    clicks: int
    gain: float | None
    ideal: float | None
    """The gain of the stream's own click probabilities, which only a simulator knows."""
    unknown: str | None


@dataclass(frozen=True, slots=True)
class _Scored:
    """One cycle: its counts, and the sums of the log-losses of the model and of the truth."""

    events: int
    clicks: int
    loss: float
    true_loss: float | None


class Reference:
    """The reference model on its way through a stream."""

    def __init__(self, spec: FeatureSpec) -> None:
        """A model that has seen nothing."""
        self._model = Model(ModelConfig(spec, OVERLAP, ALONE, INIT_STD))
        self._job = Job(spec, self._model.shape)
        rho = K * rho0(self._model.shape.ad)
        self._setting = setting_of({**STEPS, "rho": rho, "dual_step": DUAL_STEP})
        self._rule = make_rule(
            "entropic", rho=rho, dual_step=DUAL_STEP, mu0=MU, mu_floor=MU, implicit=True
        )
        self._buffers = Buffers()
        self._scored: list[_Scored] = []

    def add(self, events: Events) -> None:
        """Score the events of the next cycle, then train on them."""
        if len(events.table) == 0:
            return
        chunk = compile_chunk(events.table, self._job.spec)
        self._scored.append(self._pass(events.cycle, chunk, events.truth))

    def _pass(self, cycle: int, chunk: Chunk, truth: NDArray[np.float64] | None) -> _Scored:
        start = self._model.gather(chunk, cycle, mu0=MU)
        n, clicked = len(chunk), chunk.click != 0
        loss = n * log_loss(predict(self._job.shape, chunk, start.tables, self._buffers), clicked)
        trained = train(
            self._job, chunk, start.tables, self._setting, self._rule, buffers=self._buffers
        )
        if trained.outcome.status is Status.RETAINED:  # else the model stays as it was
            self._model.scatter(chunk, cycle, start, trained.tables)
            self._model.expire(cycle - EXPIRE_AFTER)
        true_loss = None
        if truth is not None:
            true_loss = -float(np.log(np.where(clicked, truth, 1.0 - truth)).sum())
        return _Scored(n, int(clicked.sum()), loss, true_loss)

    def result(self) -> Predictability:
        """The gains on all cycles so far but the first quarter."""
        counted = self._scored[-(-len(self._scored) // 4) :]
        events, clicks = sum(c.events for c in counted), sum(c.clicks for c in counted)
        few = _too_few(events, clicks)
        if few is not None:
            return Predictability(events, clicks, None, None, few)
        ctr = clicks / events
        constant = -clicks * np.log(ctr) - (events - clicks) * np.log1p(-ctr)
        gain = 1.0 - sum(c.loss for c in counted) / constant
        truths = [c.true_loss for c in counted if c.true_loss is not None]
        ideal = float(1.0 - sum(truths) / constant) if truths else None
        return Predictability(events, clicks, float(gain), ideal, None)


def predictability_line(found: Predictability) -> str:
    """The result in one line, with public logs to compare it to."""
    if found.gain is None:
        return f"predictability: {found.unknown}"
    than = f"{abs(found.gain):.1%} {'better' if found.gain >= 0 else 'worse'}"
    ideal = (
        "" if found.ideal is None else f" (the simulator's own probabilities: {found.ideal:.1%})"
    )
    return (
        f"a reference model predicts clicks {than} than a constant CTR{ideal}; public logs: "
        f"{public_logs()}"
    )


def _too_few(events: int, clicks: int) -> str | None:
    rarer, name = min((clicks, "clicks"), (events - clicks, "events without a click"))
    if rarer >= MIN_CLICKS:
        return None
    return (
        f"too few {name} to tell: {rarer:,} after the first quarter of the cycles, and it takes "
        f"{MIN_CLICKS}"
    )
