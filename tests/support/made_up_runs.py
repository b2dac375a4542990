"""Made-up runs: records as the loop writes them, with numbers drawn from a seed."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from orchestrator.config.file import config_text
from orchestrator.config.schema import ArmConfig, RunConfig
from orchestrator.journal.journal import commit
from orchestrator.journal.record import ChampionNorms, ChunkInfo, CycleRecord
from orchestrator.search.sampler import SearchState
from orchestrator.storage.store import Store
from support.records import record
from trainer.outcome import Divergence, Outcome, Status
from trainer.setting import Setting

FEATURES = ("age", "geo", "creative", "campaign", "advertiser")
EVENTS = 20_000


def made_up_records(
    given: RunConfig,
    cycles: int,
    seed: int = 0,
    loss: dict[str, float] | None = None,
    lift: dict[str, float] | None = None,
    stream: str = "market",
) -> list[CycleRecord]:
    """A week as it might be: `loss` is each arm's mean share of diverged instances, `lift` in %.

    Runs with the same `stream` have the same events.
    """
    rng = np.random.default_rng(seed)
    loss, lift = loss or {}, lift or {}
    weather = np.exp(0.8 * autoregressive(rng, cycles, 0.9))
    level = 0.15 + 0.005 * autoregressive(rng, cycles, 0.95)
    made = []
    for cycle in range(cycles):
        draws = rng.random((given.search.instances, 4))
        for arm in given.arms:
            if cycle >= arm.first_cycle:
                share = loss.get(arm.name, 0.1 if arm.rule.name in ("l2", "none") else 0.01)
                served = level[cycle] * (1 - lift.get(arm.name, 0.0) / 100)
                hot = min(share * weather[cycle], 0.95)
                made.append(_record(given, arm, cycle, draws, hot, served, rng))
    return [_on_stream(record, stream) for record in made]


def _on_stream(made: CycleRecord, stream: str) -> CycleRecord:
    chunk = replace(made.chunk, digest=f"{stream}-{made.cycle}")
    return made.model_copy(update={"chunk": chunk})


def write_run(store: Store, given: RunConfig, made: Iterable[CycleRecord]) -> None:
    store.create("config.yaml", config_text(given).encode())
    commit(store, made)


def autoregressive(rng: np.random.Generator, length: int, phi: float) -> np.ndarray:
    """Mean 0, variance 1, correlation phi from one step to the next."""
    noise = rng.standard_normal(length) * np.sqrt(1 - phi**2)
    series = np.zeros(length)
    last = rng.standard_normal()
    for i in range(length):
        last = series[i] = phi * last + noise[i]
    return series


def _record(
    given: RunConfig,
    arm: ArmConfig,
    cycle: int,
    draws: np.ndarray,
    hot: float,
    served: float,
    rng: np.random.Generator,
) -> CycleRecord:
    outcomes = tuple(_outcome(i, arm, draw, hot, served, rng) for i, draw in enumerate(draws))
    kept = [one for one in outcomes if one.status is Status.RETAINED]
    best = min(kept, key=lambda one: one.logloss) if kept else None
    size = 6.0 if arm.rule.name in ("l2", "none") else 3.0
    norm = size * float(np.exp(0.1 * rng.standard_normal()))
    return record(
        arm.name,
        cycle,
        seed=given.seed,
        started=f"2024-01-{1 + cycle // 96 % 28:02d}T{cycle // 4 % 24:02d}:00:00+00:00",
        chunk=ChunkInfo(f"simulator[{cycle}]", EVENTS, 400, 0.19, {}),
        outcomes=outcomes,
        winner=best.instance if best else None,
        model=(),
        served_logloss=served + 0.001 * float(rng.standard_normal()) if cycle else None,
        norms=ChampionNorms(norm, 0.8 * norm, 0.05 * norm**2),
        search=SearchState(),
        timings={"cycle": 1.5},
    )


def _outcome(
    instance: int,
    arm: ArmConfig,
    draw: np.ndarray,
    hot: float,
    served: float,
    rng: np.random.Generator,
) -> Outcome:
    eta0, alpha, beta = 0.03 * 1000 ** draw[0], 0.1 * 1000 ** draw[1], 0.3 + 0.6 * draw[2]
    setting = Setting(float(eta0), float(alpha), float(beta))
    if arm.rule.name == "l2":
        setting = replace(setting, lam=1e-3)
    elif arm.rule.name in ("entropic", "euclidean"):
        setting = replace(setting, rho=0.1, dual_step=10.0)
    fate = rng.random()
    if 1 - draw[0] < hot:
        at = int(EVENTS * rng.random() ** 2)
        feature = FEATURES[min(int(rng.exponential(1.2)), 4)]
        lost = Divergence(at, feature, f"<{feature} {at % 7}>", float(15 + rng.pareto(0.3)))
        seconds = 0.6e-6 * at
        return Outcome(
            instance, setting, Status.DIVERGED, 1e6, at + 1, seconds, lost, "‖v‖∞ >= tau"
        )
    if fate < 0.002:
        status = Status.FAILED if fate < 0.001 else Status.LATE
        return Outcome(instance, setting, status, float("nan"), 0, 0.0, None, "its process died")
    logloss = served * float(1 + 0.05 * abs(np.log(eta0)) + 0.01 * rng.random())
    return Outcome(instance, setting, Status.RETAINED, logloss, EVENTS, 0.6e-6 * EVENTS)
