"""Outcomes and records to test with."""

import math

from orchestrator.journal.record import ChampionNorms, ChunkInfo, CycleRecord, FileRef
from orchestrator.search.sampler import SearchState
from trainer.outcome import Divergence, Outcome, Status
from trainer.setting import Setting

SETTING = Setting(eta0=1.0, alpha=3.0, beta=0.5, lam=0.001)


def outcome(instance: int, status: str = "retained", logloss: float = 0.2) -> Outcome:
    return Outcome(instance, SETTING, Status(status), logloss, 100, 0.25)


def record(arm: str = "a", cycle: int = 7, **changes: object) -> CycleRecord:
    lost = Outcome(
        instance=1,
        setting=Setting(eta0=30.0, alpha=0.1, beta=0.3, lam=0.001),
        status=Status.DIVERGED,
        logloss=math.nan,
        events_done=12,
        seconds=0.03,
        divergence=Divergence(event=12, feature="genre", value="Café", norm=math.inf),
        reason="‖v‖∞ >= tau",
    )
    base = CycleRecord(
        driver="d1",
        config_hash="c0ffee",
        seed=5,
        arm=arm,
        cycle=cycle,
        started="2024-05-01T12:00:00+00:00",
        chunk=ChunkInfo("toy[700:800]", 100, 21, 0.51, {"label is null": 2}),
        outcomes=(outcome(0), lost),
        winner=0,
        model=(FileRef(f"models/{arm}/cycle-{cycle:06d}.safetensors", "ab" * 32, 4),),
        served_logloss=0.21,
        norms=ChampionNorms(max_inf=2.5, top10_inf=1.5, max_msqr=0.4),
        caution=0,
        search=SearchState(SETTING, 0),
        timings={"cycle": 1.5, "train": 1.2},
    )
    return base.model_copy(update=changes)
