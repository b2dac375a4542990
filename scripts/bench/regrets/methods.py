"""The methods of the regret benchmark. They train by the product's own arms and pools, without Ray.

Every search has the same number of instances a cycle. A method returns what each of its arms would
have served: the log-loss of every chunk, before anything trained on it.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from orchestrator.config.schema import (
    ArmConfig,
    LineagesSelect,
    RunConfig,
    SearchConfig,
    Sustain,
)
from orchestrator.config.sustained import sustained
from orchestrator.journal.models import model_config
from orchestrator.loop.arm_state import ArmState
from orchestrator.loop.lines_arm import LinesArm
from orchestrator.loop.prefetch import PreparedChunk
from orchestrator.pool.lines.local_pool import LocalLinePool
from orchestrator.pool.local_pool import LocalPool
from orchestrator.pool.protocol import Pool
from orchestrator.search.sampler import cycle_rng, draw_quantiles
from scripts.bench.regrets.mean_of import MeanPool, mean_name
from scripts.bench.regrets.streams import Stream
from trainer.model import Model

INSTANCES = 16
TOGETHER = (4, 8)
RULE = "entropic"
GRID = Sustain(eta0=(0.3, 0.6, 1.2), alpha=(0.3, 1.0, 3.0), beta=(0.5, 0.7, 0.9))
"""The fixed settings, the default setting among them."""
FIXED = tuple(f"{eta0:g}, {alpha:g}, {beta:g}" for eta0, alpha, beta in GRID.settings)
"""Their names, in the order of the grid."""
_START = LineagesSelect().start
DEFAULT = f"{_START.eta0:g}, {_START.alpha:g}, {_START.beta:g}"

Served = list[float | None]
"""The served log-loss of each chunk; None where there was no model yet."""


@dataclass(frozen=True, slots=True)
class TuningMethod:
    """A search, or a grid of settings that are kept."""

    name: str
    search: Mapping[str, object]
    grid: Sustain | None = None
    together: tuple[int, ...] = ()
    """Of so many lines, the mean is scored as well; it is in the result as mean-of-4."""

    def run(self, stream: Stream, rule: str = RULE) -> dict[str, Served]:
        """What was served, by the method's name or by those of the fixed settings."""
        search = SearchConfig.model_validate({"instances": INSTANCES, **self.search})
        arm = ArmConfig.model_validate({"name": self.name, "rule": rule})
        changes = {"search": search, "arms": (arm,), "sustain": self.grid}
        config = sustained(stream.config.model_copy(update=changes))
        served = served_by(config, stream, self.together)
        return served if self.grid is None else dict(zip(FIXED, served.values(), strict=True))


METHODS = (
    TuningMethod("champion", {}),
    TuningMethod("lineages", {"select": {"kind": "lineages"}}, together=TOGETHER),
    TuningMethod("no-replacement", {"select": {"kind": "lineages", "replace_every": []}}),
    TuningMethod("fixed", {}, GRID),
)


def served_by(
    config: RunConfig, stream: Stream, together: tuple[int, ...] = ()
) -> dict[str, Served]:
    """What each arm served on each chunk, and what the means of lines would have."""
    found: dict[str, Served] = {name: [] for name in _names(config, together)}
    arms = new_arms(config, stream)
    with closing(new_pool(arms, config, stream, together)) as pool:
        for prepared in stream.chunks:
            for name, logloss in one_cycle(arms, config, pool, prepared).items():
                found[name].append(logloss)
    return found


def _names(config: RunConfig, together: tuple[int, ...]) -> list[str]:
    return [*(arm.name for arm in config.arms), *map(mean_name, together)]


def one_cycle(
    arms: Mapping[str, ArmState], config: RunConfig, pool: Pool, prepared: PreparedChunk
) -> dict[str, float | None]:
    """A cycle, as `run_cycle` does it, with nothing written: what was served."""
    draws = draw_quantiles(config, prepared.cycle, cycle_rng(config.seed, prepared.cycle))
    plans = {name: arm.plan(prepared, draws, None) for name, arm in arms.items()}
    pool.start([arms[name].progress(plan, pool.share) for name, plan in plans.items()])
    served = {}
    for result in pool.results():
        arms[result.arm].adopt(plans[result.arm], result)
        served[result.arm] = result.served
    return served | (pool.served if isinstance(pool, MeanPool) else {})


def new_arms(config: RunConfig, stream: Stream) -> dict[str, ArmState]:
    """The arms of a config, which have seen nothing."""
    options = model_config(config, stream.spec)
    if isinstance(config.search.select, LineagesSelect):
        return {arm.name: LinesArm(config, arm, Model(options), _no_file) for arm in config.arms}
    return {arm.name: ArmState(config, arm, Model(options)) for arm in config.arms}


def new_pool(
    arms: Mapping[str, ArmState], config: RunConfig, stream: Stream, together: tuple[int, ...] = ()
) -> Pool:
    """The pool that trains them, in this process."""
    first = next(iter(arms.values()))
    rules = [first.sample_rule]
    if together:
        return MeanPool(first.trainer, rules, together)
    kind = LocalLinePool if isinstance(first, LinesArm) else LocalPool
    return kind(first.trainer, rules)


def _no_file(file: object) -> bytes:
    raise AssertionError(f"{file}: a run that starts anew reads no files")
