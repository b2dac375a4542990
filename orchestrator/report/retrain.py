"""Retrains aborted instances so that the report can show all their vectors."""

from collections.abc import Sequence

from divergence.errors import InputError
from orchestrator.offline.replay import vectors_at_end
from orchestrator.report.aborts import AbortId, choose_aborts, runs_with_abort
from orchestrator.report.frames import instances_frame
from orchestrator.report.load import Run
from orchestrator.report.write import parquet
from orchestrator.storage.open import open_store
from orchestrator.storage.output import Output


def retrain_aborts(
    runs: Sequence[Run], per_run: int, requested: Sequence[AbortId], output: Output
) -> list[str]:
    """Retrain the requested aborts and `per_run` more of each run; store their vectors.

    Returns one line for each abort that cannot be retrained, for example because its events are
    gone.
    """
    chosen = [(run, which) for which in requested for run in runs_with_abort(runs, which)]
    for run in runs:
        chosen += [(run, which) for which in choose_aborts(instances_frame([run]), per_run)]
    refused = []
    for run, which in dict.fromkeys(chosen):
        try:
            retrain_abort(run, which, output)
        except InputError as error:
            refused.append(f"{run.name}: {error}")
    return refused


def retrain_abort(run: Run, which: AbortId, output: Output) -> None:
    """Retrain one aborted instance and store its vectors."""
    vectors = vectors_at_end(open_store(run.uri), which.arm, which.cycle, which.instance)
    output.put(f"aborts/{run.name}/{which.filename}", parquet(vectors))
