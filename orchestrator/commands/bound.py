"""`holdfast bound`: rho0 for the geometry of a config, and the search for its multiple k."""

import json

import click
import numpy as np

from divergence.bound import VISIBLE, rho0, safe_multiple, smallest_sufficient
from divergence.errors import InputError
from orchestrator.commands.options import code_option, config_argument, set_option
from orchestrator.config.certificate import certificate
from orchestrator.config.file import load_config
from orchestrator.config.schema import RunConfig, feature_spec
from orchestrator.config.trainer_checks import require_offset
from orchestrator.journal.models import model_config
from orchestrator.offline.bound_search import bounded_arms, losses_by_k, middle_setting
from orchestrator.sources.opening import open_source
from orchestrator.sources.protocol import Source
from trainer.chunk import Chunk, compile_chunk
from trainer.geometry import Shape

KS = "0.03,0.1,0.3,1,2,3,4,5,6,7,8,9,10"


@click.command("bound", epilog="Example: holdfast bound configs/quickstart.yaml --search")
@config_argument
@set_option
@code_option
@click.option("--search", is_flag=True, help="Also search: train with rho = k * rho0 for each k.")
@click.option("--k", "ks_text", default=KS, show_default=True, help="Values of k to try.")
@click.option("--arm", help="Use this arm's rule and ranges. Default: the first arm with a bound.")
@click.option("--cycles", default=32, show_default=True, type=click.IntRange(min=2),
              help="Cycles to train on.")  # fmt: skip
@click.option("--visible", default=VISIBLE, show_default=True, type=click.FloatRange(min=0),
              help="Minimum visible gain, as a share of the log-loss.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    config_path: str,
    assignments: tuple[str, ...],
    search: bool,
    ks_text: str,
    arm: str | None,
    cycles: int,
    visible: float,
    as_json: bool,
) -> None:
    """Print the heuristic bound rho0 for CONFIG, and search for its multiple k.

    A vector of d entries whose mean square is within rho cannot reach tau while d * rho < tau**2.
    For each side it prints the k for which rho = k * rho0 meets that, and for each arm whether its
    instances can diverge.

    The search trains one model for each k, with the setting in the middle of the arm's ranges. It
    picks the smallest k that no larger k visibly improves on. A visible gain is more than --visible
    of the log-loss and more than two standard errors, over the second half of the cycles.
    """
    config = load_config(config_path, assignments)
    require_offset(config, "bound")
    ks = _parse_ks(ks_text)
    source = open_source(config.source, feature_spec(config.features))
    shape = model_config(config, source.spec).shape
    found: dict[str, object] = {
        "d": shape.user,
        "N": shape.ad,
        "rho0": rho0(shape.ad),
        **_safety(config, shape),
    }
    if not as_json:
        click.echo(f"user vectors have {shape.user} entries, ad vectors {shape.ad}")
        click.echo(f"rho0 = {rho0(shape.ad):.6g}")
        for line in _safety_lines(config, shape):
            click.echo(line)
    if search:
        found |= _search(config, source, ks, arm, cycles, visible, quiet=as_json)
    if as_json:
        click.echo(json.dumps(found))


def _safe_multiples(config: RunConfig, shape: Shape) -> dict[str, float]:
    """Below which k the vectors of each side cannot reach tau; a side may have none."""
    sides = {"user": shape.user, "ad": shape.ad}
    return {
        side: safe_multiple(length, shape.ad, config.model.tau)
        for side, length in sides.items()
        if length
    }


def _safety(config: RunConfig, shape: Shape) -> dict[str, object]:
    arms = {}
    for arm in config.arms:
        one = certificate(config, arm, shape)
        arms[arm.name] = {"largest_norm": one.norm, "can_diverge": not one.cannot_diverge}
    return {"tau": config.model.tau, "safe_k": _safe_multiples(config, shape), "arms": arms}


def _safety_lines(config: RunConfig, shape: Shape) -> list[str]:
    multiples = [
        f"{side} vectors for k < {k:.3g}" for side, k in _safe_multiples(config, shape).items()
    ]
    head = f"within rho = k * rho0, no vector reaches tau = {config.model.tau:g}: "
    return [
        head + ", ".join(multiples),
        *(certificate(config, arm, shape).text for arm in config.arms),
    ]


def _parse_ks(text: str) -> list[float]:
    try:
        ks = sorted({float(k) for k in text.split(",")})
    except ValueError:
        raise InputError(f"--k {text}: must be numbers separated by commas") from None
    if not (ks[0] > 0 and np.isfinite(ks[-1])):
        raise InputError(f"--k {text}: every k must be > 0 and finite")
    return ks


def _search(
    config: RunConfig,
    source: Source,
    ks: list[float],
    arm_name: str | None,
    cycles: int,
    visible: float,
    quiet: bool,
) -> dict[str, object]:
    arms = {arm.name: arm for arm in bounded_arms(config)}
    if not arms:
        raise InputError("--search needs an arm whose rule has a bound rho; the config has none")
    if arm_name is not None and arm_name not in arms:
        known = ", ".join(arms)
        raise InputError(f"--arm {arm_name}: must be an arm whose rule has a bound rho: {known}")
    arm = arms[arm_name] if arm_name else next(iter(arms.values()))
    chunks = _chunks(source, cycles)
    setting = middle_setting(config, arm, rho0(model_config(config, source.spec).shape.ad))
    with click.progressbar(length=len(ks), label="training", hidden=quiet) as bar:
        losses = losses_by_k(config, arm, source.spec, chunks, ks, lambda k: bar.update(1))
    settled = {k: series[len(series) // 2 :] for k, series in losses.items()}
    chosen = smallest_sufficient(settled, visible)
    means = {k: float(np.mean(series)) for k, series in settled.items()}
    if not quiet:
        click.echo(f"{arm.name}, eta0={setting.eta0:g} alpha={setting.alpha:g} "
                   f"beta={setting.beta:g}, log-loss from cycle {cycles // 2} on:")  # fmt: skip
        for k, mean in means.items():
            result = f"{mean:.6f}" if np.isfinite(mean) else "diverged"
            click.echo(f"  k = {k:<6g} {result}{'  <- chosen' if k == chosen else ''}")
    finite = {k: mean if np.isfinite(mean) else None for k, mean in means.items()}
    return {"arm": arm.name, "k": chosen, "logloss": finite}


def _chunks(source: Source, cycles: int) -> list[Chunk]:
    chunks = []
    for cycle in range(cycles):
        events = source.events(cycle)
        if events is None:
            break
        if len(events.table):
            chunks.append(compile_chunk(events.table, source.spec))
    if len(chunks) < 2:
        raise InputError(
            f"the search for k needs at least two cycles with events, but has {len(chunks)}"
        )
    return chunks
