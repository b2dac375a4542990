"""The search for k, where the bound is rho = k * rho0: train one setting per k for some cycles."""

from collections.abc import Callable, Sequence

import numpy as np

from divergence.bound import rho0
from orchestrator.config.ranges import value_at
from orchestrator.config.rules import kernel_rule, searched
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.config.space import space_of
from orchestrator.journal.models import model_config
from trainer.chunk import Chunk
from trainer.features import FeatureSpec
from trainer.instance import Job
from trainer.model import Model
from trainer.outcome import Status
from trainer.setting import Setting, setting_of
from trainer.sustain import sustain


def middle_setting(config: RunConfig, arm: ArmConfig, bound: float) -> Setting:
    """The middle of the arm's ranges, with rho = bound."""
    space = space_of(config, arm, bound)
    middle = {name: value_at(span, 0.5) for name, span in space.items()}
    return setting_of(middle | {"rho": bound})


def losses_by_k(
    config: RunConfig,
    arm: ArmConfig,
    spec: FeatureSpec,
    chunks: Sequence[Chunk],
    ks: Sequence[float],
    on_done: Callable[[float], None],
) -> dict[float, list[float]]:
    """For each k, the log-loss on every chunk; infinite where the instance diverged.

    `on_done` is called with each k when it is finished.
    """
    made = model_config(config, spec)
    job = Job(spec, made.shape, config.model.tau)
    losses = {}
    for k in ks:
        setting = middle_setting(config, arm, k * rho0(made.shape.ad))
        rule = kernel_rule(arm.rule, setting)
        outcomes = sustain(
            Model(made), chunks, job, setting, rule,
            sums_kept=config.model.accumulators.decay, expire_after=config.model.expire_after,
        )  # fmt: skip
        losses[k] = [o.logloss if o.status is Status.RETAINED else np.inf for o in outcomes]
        on_done(k)
    return losses


def bounded_arms(config: RunConfig) -> list[ArmConfig]:
    """The arms whose rule has a bound rho."""
    return [arm for arm in config.arms if "rho" in searched(arm.rule)]
