"""The working set of a cycle is drafted while the cycle before trains: the bits stay the same."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.loop import arm_state
from orchestrator.loop.arm_state import ArmState
from orchestrator.pool.local_pool import LocalPool
from orchestrator.pool.messages import ArmResult
from support.configs import small
from support.runs import bits, go_with
from trainer.draft import draft_of


class Patient(LocalPool):
    """Gives results only once the next cycle is drafted, as training takes longer than that."""

    drafted = threading.Semaphore(0)

    def results(self) -> Iterator[ArmResult]:
        for result in super().results():
            assert self._arms[0].cycle == 3 or self.drafted.acquire(timeout=60)
            yield result


@pytest.fixture
def gathers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The cycles whose working sets were gathered in the driver's thread."""
    cycles: list[int] = []
    gather, draft = ArmState.gather, ArmState.draft_next

    def noted(self: ArmState, cycle: int, *rest: Any) -> Any:
        cycles.append(cycle)
        return gather(self, cycle, *rest)

    def released(self: ArmState, *all_: Any) -> None:
        draft(self, *all_)
        Patient.drafted.release()

    monkeypatch.setattr(ArmState, "gather", noted)
    monkeypatch.setattr(ArmState, "draft_next", released)
    return cycles


HOT = ["search.ranges.eta0={low: 1e5, high: 1e6}", "search.ranges.alpha=0.001",
       "search.sampler=random"]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "gathered"),
    [
        ([], [0, 0]),
        (["model.accumulators={decay: 0.5}"], [0, 0]),
        (["arms.1.start_from={arm: production, cycle: 2}"], [0, 2]),
        (HOT, [0, 0, 1, 1, 2, 2, 3, 3]),  # nobody wins
    ],
)
def test_a_run_with_drafts_has_the_bits_of_one_without(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gathers: list[int],
    options: list[str],
    gathered: list[int],
) -> None:
    config = small(*options)
    go_with(Patient, config, tmp_path / "drafts", None, None)
    assert gathers == gathered
    monkeypatch.setattr(ArmState, "draft_next", lambda *_: None)
    go_with(LocalPool, config, tmp_path / "none", None, None)
    assert len(gathers) > len(gathered)
    assert bits(tmp_path / "drafts", config) == bits(tmp_path / "none", config)


def test_a_draft_that_comes_too_late_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathers: list[int]
) -> None:
    draft = ArmState.draft_next

    def late(self: ArmState, plan: Any, *rest: Any) -> None:
        while self.model.cycle < plan.cycle:
            threading.Event().wait(0.001)
        draft(self, plan, *rest)

    monkeypatch.setattr(ArmState, "draft_next", late)
    go_with(LocalPool, small(), tmp_path, None, None)
    assert gathers == [0, 0, 1, 1, 2, 2, 3, 3]


class Alone(LocalPool):
    """Its trainers cannot read a winner's rows, as with dispatchers."""

    def results(self) -> Iterator[ArmResult]:
        return (replace(result, shared=None) for result in super().results())


def test_nothing_is_drafted_where_trainers_cannot_read_the_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gathers: list[int]
) -> None:
    drafted: list[int] = []
    monkeypatch.setattr(
        arm_state, "draft_of", lambda *args, **_: drafted.append(args[3]) or draft_of(*args, **_)
    )
    go_with(Alone, small(), tmp_path, None, None)
    assert gathers == [0, 0, 1, 1, 2, 2, 3, 3]
    assert set(drafted) <= {1}
