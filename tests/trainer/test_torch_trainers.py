"""PyTorch's and River's trainers: the contract, rules, hot steps, and runs in this process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestrator.config.rules import kernel_rule
from orchestrator.loop import lines_arm
from orchestrator.offline.replay import replay
from orchestrator.report.load import load_runs
from orchestrator.report.write import compute
from orchestrator.storage.open import open_store
from support.runs import bits, go_here, records
from support.trainers import case_of, config_of
from trainer.contract.trainers import CHECKS, TrainerCase, timeless
from trainer.outcome import Status
from trainer.setting import setting_of

pytestmark = pytest.mark.slow
LINES = "search.select={kind: lineages, replace_every: [1]}"
DIGEST = """
import hashlib, sys
sys.path.insert(0, "tests")
from support.trainers import case_of
case = case_of(sys.argv[1])
print(hashlib.sha256(case.bits(case.after(2))).hexdigest())
"""


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("trainer", ["torch", "river"])
def test_the_contract_of_trainers(trainer: str, check: Callable[[TrainerCase], str]) -> None:
    assert check(case_of(trainer)) == ""


@pytest.mark.parametrize("trainer", ["torch", "river"])
def test_two_processes_train_to_the_same_bits(trainer: str) -> None:
    command = [sys.executable, "-c", DIGEST, trainer]
    found = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2)]
    assert len({one.stdout for one in found}) == 1
    assert len(found[0].stdout) == 65


@pytest.mark.parametrize("trainer", ["torch", "river"])
def test_hot_steps_diverge_at_the_same_event_when_traced(trainer: str) -> None:
    case = case_of(trainer, *(("arms=[{name: a, rule: none}]",) if trainer == "torch" else ()))
    hot = setting_of({"step": 1000.0, "l2": 1e-8})
    chunk = case.trainer.compile(case.tables[0])
    start = case.trainer.new_model().gather(chunk, 0).tables
    outcome = case.trainer.train(chunk, start, hot, case.rule).outcome
    assert outcome.status is Status.DIVERGED
    assert outcome.divergence is not None
    traced = case.trainer.trace(chunk, start, hot, case.rule).outcome
    assert repr(timeless(traced)) == repr(timeless(outcome))  # its log-loss may be NaN


def test_a_rule_holds_what_diverges_without_it() -> None:
    config = config_of("torch", events=600)
    case = case_of("torch")
    chunk = case.trainer.compile(case.tables[0])
    found = {}
    for arm in config.arms:
        setting = setting_of({"step": 100.0, "rho": 1.0, "dual_step": 30.0})
        start = case.trainer.new_model().gather(chunk, 0, mu0=case.options.mu0).tables
        rule = kernel_rule(arm.rule, setting)
        found[arm.name] = case.trainer.train(chunk, start, setting, rule)
    assert found["plain"].outcome.status is Status.DIVERGED
    assert found["held"].outcome.status is Status.RETAINED
    tables = found["held"].tables
    assert np.square(tables["user"]).mean(axis=1).max() <= 1.001 * rule.wall * rule.rho
    assert tables["user.mu"].max() > case.options.mu0


def test_the_tables_of_the_state_are_trained_as_pytorch_would() -> None:
    """Against a plain loop with nn.EmbeddingBag and Adagrad."""
    assignments = ("trainer.optimizer=adagrad", "arms=[{name: a, rule: none}]")
    case = case_of("torch", *assignments)
    chunk = case.trainer.compile(case.tables[0])
    start = case.trainer.new_model().gather(chunk, 0).tables
    setting = setting_of({"step": 0.3})
    trained = case.trainer.train(chunk, start, setting, case.rule).tables
    tables = {n: torch.tensor(start[n], requires_grad=True) for n in ("user", "ad")}
    biases = {n: torch.tensor(start[n], requires_grad=True) for n in ("user_bias", "ad_bias")}
    bias = torch.zeros(1, 1, requires_grad=True)
    optimizer = torch.optim.Adagrad([*tables.values(), *biases.values(), bias], lr=0.3)
    users, ads = (torch.from_numpy(side.row.reshape(len(chunk), -1).copy())
                  for side in (chunk.data.users, chunk.data.ads))  # fmt: skip
    for first in range(0, len(chunk), 64):
        u, a = users[first : first + 64], ads[first : first + 64]
        logits = (tables["user"][u].sum(1) * tables["ad"][a].sum(1)).sum(1)
        logits = logits + (biases["user_bias"][u].sum(1) + biases["ad_bias"][a].sum(1) + bias)[:, 0]
        click = torch.from_numpy(chunk.click[first : first + 64].astype("f4"))
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(logits, click).backward()
        optimizer.step()
    for name, table in tables.items():
        np.testing.assert_allclose(trained[name], table.detach().numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("more", [(), (LINES,)], ids=["champion", "lineages"])
@pytest.mark.parametrize("trainer", ["torch", "river"])
def test_runs_resume_to_the_same_bits_are_replayed_and_reported(
    tmp_path: Path, trainer: str, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines_arm, "SNAPSHOT_CYCLES", 2)
    config = config_of(trainer, *more, "cycles=4", events=120)
    go_here(config, tmp_path / "once")
    for cycles in (1, 3, 4):
        small = config_of(trainer, *more, f"cycles={cycles}", events=120)
        go_here(small, tmp_path / "resumed")
    assert bits(tmp_path / "once", config) == bits(tmp_path / "resumed", config)
    store, arm = open_store(str(tmp_path / "once")), config.arms[-1].name
    assert [replay(store, arm, cycle, i).same for cycle in (0, 3) for i in (1, 3)] == [True] * 4
    kept = [o.status for r in records(tmp_path / "once", arm) for o in r.outcomes]
    assert kept.count(Status.RETAINED) >= 8
    report = compute(load_runs([str(tmp_path / "once")]), (), None, None)
    assert any(section.key == "settings" for section in report.sections)
