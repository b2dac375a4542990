"""Makes the story of an instance of a run: it is trained again, and beside it its twin."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from divergence.bound import rho0
from divergence.detector import LARGE
from divergence.errors import InputError
from divergence.rules import Rule
from orchestrator.config.ranges import value_at
from orchestrator.config.rules import initial_mu, kernel_rule
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.config.space import space_of
from orchestrator.offline.replay import History, Retrained, retrained, vectors_at_end
from orchestrator.offline.story import BOUNDED, DUAL_ASCENT, Story, StoryTwin, StoryVector
from orchestrator.storage.store import Store
from trainer.chunk import Chunk
from trainer.contagion import Contagion, Growth, company, contagion, norms_after
from trainer.instance import Job, train
from trainer.kernel import Tables
from trainer.outcome import Outcome
from trainer.setting import Setting, setting_of
from trainer.steps import Steps

MAX_VECTORS = 60
FRAMES = 60
"""Norms are kept after as many evenly spaced events, after as many that are the denser the nearer
they are to the end, and after every event with a growth."""
LEAD = 0.1
"""The first frame is this much of the story before the first growth."""
DECIMALS = 3


def read_story(store: Store, arm_name: str | None, cycle: int, instance: int) -> Story:
    """The story of an instance of a run; InputError if no vector grew."""
    history = History(store)
    found = retrained(history, arm_name, cycle, instance)
    story = story_of(history, found)
    if story is None:
        vectors = vectors_at_end(found)
        [largest] = vectors.nlargest(1, "norm").to_dict("records")
        reason = found.trained.outcome.reason or "it did not diverge"
        raise InputError(
            f"instance {instance} of cycle {cycle} of {found.arm.name} has no story: {reason}, and "
            f"no vector grew to a third of tau; the largest at its end is {largest['feature']}="
            f"{largest['value'] or '(missing)'} ({largest['norm']:.3g})"
        )
    return story


def story_of(history: History, found: Retrained) -> Story | None:
    """The story of an instance that was trained again; None if no vector grew."""
    job, chunk, outcome = history.job, found.chunk, found.trained.outcome
    rule = kernel_rule(found.arm.rule, outcome.setting)
    start, done = found.start.tables, outcome.events_done
    spread = contagion(job, chunk, start, outcome.setting, rule, done)
    if not spread.growths:
        return None
    end = _end(job, chunk, outcome, spread)
    shown = _shown(spread, end)
    numbers = {growth.vector: i for i, growth in enumerate(shown)}
    frames = _frames(shown, done)
    vectors = np.array([growth.vector for growth in shown])
    norms = norms_after(Steps(job, chunk, start, outcome.setting, rule), vectors, frames)
    twin, twin_norms = _twin(history, found, vectors, frames)
    return Story(
        arm=found.arm.name,
        rule=found.arm.rule.name,
        cycle=found.cycle,
        instance=found.recorded.instance,
        tau=job.tau,
        level=LARGE * job.tau,
        chunk_events=len(chunk),
        events_done=done,
        end=None if end is None else numbers[end],
        lost=outcome.reason,
        end_norm=_finite(outcome.divergence.norm) if outcome.divergence else None,
        grown=len(spread.growths),
        beside=sum(1 for growth in spread.growths if growth.sources),
        company=tuple((c.shared, c.nearby) for c in company(chunk, spread.growths, done)),
        frames=tuple(frames.tolist()),
        vectors=tuple(
            StoryVector(
                *_name(job, chunk, growth.vector),
                growth.event,
                tuple(numbers[source] for source in growth.sources if source in numbers),
                _short(norms[:, i]),
                _short(twin_norms[:, i]),
            )
            for i, growth in enumerate(shown)
        ),
        twin=twin,
    )


def _end(job: Job, chunk: Chunk, outcome: Outcome, spread: Contagion) -> int | None:
    """The vector that reached tau; None if it was the bias, or if none did."""
    if outcome.divergence is None:
        return None
    last = (outcome.divergence.feature, outcome.divergence.value)
    return next((g.vector for g in spread.growths if _name(job, chunk, g.vector) == last), None)


def _shown(spread: Contagion, end: int | None) -> list[Growth]:
    """Those by which growth came to the end, and the first of the others; in order."""
    known = {growth.vector: growth for growth in spread.growths}
    order = {vector: i for i, vector in enumerate(known)}
    chosen: dict[int, None] = {}
    while end is not None:
        chosen[end] = None
        end = min(known[end].sources, key=order.__getitem__, default=None)
    chosen |= dict.fromkeys(known)
    return [known[vector] for vector in sorted(list(chosen)[:MAX_VECTORS], key=order.__getitem__)]


def _frames(shown: list[Growth], events_done: int) -> NDArray[np.int64]:
    last = events_done - 1
    own = [max(growth.event, 0) for growth in shown]
    first = max(own[0] - int(LEAD * (last - own[0])) - 1, 0)
    even = np.linspace(first, last, FRAMES).astype(np.int64)
    denser = last + 1 - np.geomspace(last - first + 1, 1, FRAMES).astype(np.int64)
    return np.unique(np.concatenate([even, denser, own]))


def _twin(
    history: History, found: Retrained, vectors: NDArray[np.int64], frames: NDArray[np.int64]
) -> tuple[StoryTwin, NDArray[np.float32]]:
    """The twin on the same events, and its norms of these vectors."""
    job, chunk, outcome = history.job, found.chunk, found.trained.outcome
    arm = twin_arm(history.config, found.arm)
    setting, rule = twin_setting(history.config, arm, outcome.setting, rho0(job.shape.ad))
    start = _with_mu(found.start.tables, initial_mu(arm.rule))
    ended = train(job, chunk, start, setting, rule).outcome
    done = min(outcome.events_done, ended.events_done)
    spread = contagion(job, chunk, start, setting, rule, done)
    norms = norms_after(Steps(job, chunk, start, setting, rule), vectors, frames)
    twin = StoryTwin(arm.rule.name, len(spread.growths), _finite(spread.largest), ended.reason)
    return twin, norms


def twin_arm(config: RunConfig, arm: ArmConfig) -> ArmConfig:
    """The arm whose rule the twin has: dual ascent, with this run's constants or the defaults.

    The twin of dual ascent itself has the rule `holdfast`, which also bounds its steps.
    """
    name = BOUNDED if arm.rule.name == DUAL_ASCENT else DUAL_ASCENT
    default = ArmConfig.model_validate({"name": "twin", "rule": name})
    return next((other for other in config.arms if other.rule.name == name), default)


def twin_setting(
    config: RunConfig, arm: ArmConfig, own: Setting, rho0: float
) -> tuple[Setting, Rule]:
    """The instance's steps with the arm's rule; a searched constant is the middle of its range."""
    middle = {name: value_at(span, 0.5) for name, span in space_of(config, arm, rho0).items()}
    setting = replace(setting_of(middle), eta0=own.eta0, alpha=own.alpha, beta=own.beta)
    return setting, kernel_rule(arm.rule, setting)


def _with_mu(start: Tables, mu: float) -> Tables:
    """The rows with new multipliers: those of another rule mean nothing to this one."""
    users, ads = (np.full_like(old, mu) for old in (start.user_mu, start.ad_mu))
    return start._replace(user_mu=users, ad_mu=ads)


def _name(job: Job, chunk: Chunk, vector: int) -> tuple[str, str]:
    users = len(chunk.user_keys)
    keys, row = (chunk.user_keys, vector) if vector < users else (chunk.ad_keys, vector - users)
    return job.spec.features[int(keys.feature[row])].name, str(keys.value[row])


def _short(norms: NDArray[np.float32]) -> tuple[float | None, ...]:
    short = np.round(norms.astype(float), DECIMALS).tolist()
    return tuple(norm if abs(norm) < np.inf else None for norm in short)


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
