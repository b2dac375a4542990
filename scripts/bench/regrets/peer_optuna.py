"""Optuna's TPE, one cycle at a time: the champion is trained with the settings that TPE asks for.

As a practitioner would do it, and as Optuna's page on batches advises: one study for the whole
stream, `ask` for all instances of a cycle, then `tell` each one's in-chunk log-loss. The best of
them is served and is the next cycle's start. `TPESampler` has its defaults, which since Optuna 5
are the multivariate TPE with a constant liar. Two kindnesses: the study is told the log-loss less
that of a constant CTR (or TPE would compare chunks instead of settings), and its first settings are
those of the lines. A diverged instance is told as pruned: TPE ranks it last.
"""

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

from orchestrator.config.ranges import Choice, Interval
from scripts.bench.regrets.peer_setup import (
    PeerResult,
    PeerSetup,
    Progress,
    excess,
    is_retained,
)
from trainer.instance import Buffers
from trainer.kernel import Tables


def tpe(setup: PeerSetup, progress: Progress) -> PeerResult:
    """The served log-loss of TPE on each chunk."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(seed=setup.config.seed)
    study = optuna.create_study(direction="minimize", sampler=sampler)
    for values in setup.first:
        study.enqueue_trial(values)
    axes = {name: _distribution(span) for name, span in setup.searched.items()}
    model = setup.new_model()
    served: list[float | None] = []
    for done, prepared in enumerate(setup.chunks):
        start = model.gather(prepared)
        served.append(model.served(prepared, start) if model.state.has_champion else None)
        best: tuple[float, Tables] | None = None
        trials = [study.ask(axes) for _ in range(setup.instances)]
        for trial in trials:
            trained = model.train(prepared, start, setup.setting(trial.params))
            if not is_retained(trained):
                study.tell(trial, state=TrialState.PRUNED)
                continue
            loss = trained.outcome.logloss
            study.tell(trial, excess(prepared, loss))
            if best is None or loss < best[0]:
                best = (loss, Buffers().copy_of(trained.tables))
        if best is not None:
            model.keep(prepared, start, best[1])
        progress(done + 1, len(setup.chunks))
    return PeerResult(served, setup.instances * len(setup.chunks))


def _distribution(span: Interval | Choice) -> BaseDistribution:
    if isinstance(span, Choice):
        return CategoricalDistribution(span.choice)
    return FloatDistribution(span.low, span.high, log=span.log)
