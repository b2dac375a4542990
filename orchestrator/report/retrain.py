"""Aborted instances trained again, so that the report can show all their vectors."""

from collections.abc import Sequence

from divergence.errors import InputError
from orchestrator.replay import vectors_at_end
from orchestrator.report.aborts import AbortId, choose
from orchestrator.report.frames import instances_frame
from orchestrator.report.load import Run
from orchestrator.report.output import Output
from orchestrator.report.write import parquet
from orchestrator.store import open_store


def keep_aborts(runs: Sequence[Run], most: int, output: Output) -> list[str]:
    """Train up to `most` aborts of each run again and keep their vectors beside the report.

    Returns a line for each that could not be: its events are gone, say.
    """
    refused = []
    for run in runs:
        for which in choose(instances_frame([run]), most):
            try:
                keep_abort(run, which, output)
            except InputError as error:
                refused.append(f"{run.name}: {error}")
    return refused


def keep_abort(run: Run, which: AbortId, output: Output) -> None:
    """Train one again and keep it."""
    vectors = vectors_at_end(open_store(run.uri), which.arm, which.cycle, which.instance)
    output.put(f"aborts/{run.name}/{which.file}", parquet(vectors))
