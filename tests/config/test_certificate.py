"""Which arms cannot diverge, and that it is so."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from divergence.bound import rho0, safe_multiple
from orchestrator.commands.bound import command
from orchestrator.config.certificate import certificate
from orchestrator.config.file import read_config
from orchestrator.config.rules import kernel_rule
from orchestrator.config.schema import RunConfig
from orchestrator.journal.models import model_config
from orchestrator.sources.opening import resolve_spec
from scripts.bench.regrets.streams import Size, open_stream
from trainer.geometry import Shape
from trainer.instance import Job, train
from trainer.model import Model
from trainer.outcome import Status
from trainer.setting import Setting

CONFIG = """
seed: 1
source: {{kind: simulator, preset: stormy, events_per_cycle: 100}}
model: {{tau: {tau}}}
arms:
  - {{name: held, rule: {{name: projection, rho: {{k: {{low: 0.1, high: 1}}}}}}}}
  - {{name: short, rule: {{name: max_norm, limit: 2}}}}
  - {{name: ascent, rule: {{name: entropic, rho: {{k: 0.1}}, dual_step: 10}}}}
  - {{name: free, rule: none}}
"""


def config_of(tau: float) -> tuple[RunConfig, Shape]:
    config = read_config(CONFIG.format(tau=tau), "test")
    return config, model_config(config, resolve_spec(config.source, None)).shape


def test_a_vector_within_its_bound_reaches_tau_from_the_safe_multiple_on() -> None:
    """LAB.md: at tau = 15 and N = 18, ad vectors are safe up to k = 7, and not at 8."""
    assert 7 < safe_multiple(18, 18, 15.0) < 8
    k, length = safe_multiple(7, 18, 15.0), 7
    assert length * k * rho0(18) == pytest.approx(15.0**2)
    spike = np.zeros(length)
    spike[0] = np.sqrt(length * k * rho0(18))  # all of the mean square in one entry
    assert spike.max() == pytest.approx(15.0)


def test_rules_that_scale_back_are_certified_for_the_widest_bound() -> None:
    config, shape = config_of(15.0)
    found = {arm.name: certificate(config, arm, shape) for arm in config.arms}
    assert {name: one.cannot_diverge for name, one in found.items()} == {
        "held": True, "short": True, "ascent": False, "free": False
    }  # fmt: skip
    longest = max(shape.user, shape.ad)
    assert found["held"].norm == pytest.approx(np.sqrt(longest * rho0(shape.ad)), rel=1e-5)
    assert found["short"].norm == pytest.approx(2.0)
    assert found["ascent"].norm is None
    assert "does not bound vectors" in found["free"].text


def test_a_norm_that_is_not_below_tau_is_no_certificate() -> None:
    config, shape = config_of(2.0)
    found = {arm.name: certificate(config, arm, shape) for arm in config.arms}
    assert not found["held"].cannot_diverge
    assert not found["short"].cannot_diverge  # the norm is tau itself
    assert "not below tau = 2" in found["short"].text


@pytest.mark.slow  # compiles
def test_an_arm_with_a_certificate_survives_absurd_settings() -> None:
    """And one without is lost with the same: the certificate is about something."""
    stream = open_stream("stormy", 101, Size(cycles=1, events=300))
    config = read_config(CONFIG.format(tau=15.0), "test")
    options = model_config(config, stream.spec)
    chunk = stream.chunks[0].chunk
    assert chunk is not None
    start = Model(options).gather(chunk, 0).tables
    job = Job(stream.spec, options.shape, config.model.tau)
    arms = {arm.name: arm for arm in config.arms}

    def status(name: str, eta0: float) -> Status:
        setting = Setting(eta0, 0.001, 0.1, rho=rho0(options.shape.ad))
        rule = kernel_rule(arms[name].rule, setting)
        return train(job, chunk, start, setting, rule).outcome.status

    assert certificate(config, arms["held"], options.shape).cannot_diverge
    for eta0 in (30.0, 1e3, 1e6):
        assert status("held", eta0) is Status.RETAINED
    assert status("free", 1e3) is Status.DIVERGED


def test_the_command_says_for_which_k_and_which_arm(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(CONFIG.format(tau=15.0))
    shown = CliRunner().invoke(command, [str(path)], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "no vector reaches tau = 15: user vectors for k < " in shown.output
    assert "held: no instance can diverge" in shown.output
    assert "ascent: instances can diverge" in shown.output
    found = json.loads(CliRunner().invoke(command, [str(path), "--json"]).output)
    assert found["safe_k"]["ad"] == pytest.approx(15**2 / (found["N"] * found["rho0"]))
    assert found["arms"]["held"]["can_diverge"] is False
    assert found["arms"]["free"] == {"largest_norm": None, "can_diverge": True}
