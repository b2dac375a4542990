"""Aborted instances trained again, so that the report can show all their vectors."""

from collections.abc import Sequence

from divergence.errors import InputError
from orchestrator.offline.replay import vectors_at_end
from orchestrator.report.aborts import AbortId, choose, found_in
from orchestrator.report.frames import instances_frame
from orchestrator.report.load import Run
from orchestrator.report.write import parquet
from orchestrator.storage.open import open_store
from orchestrator.storage.output import Output


def keep_aborts(
    runs: Sequence[Run], most: int, asked: Sequence[AbortId], output: Output
) -> list[str]:
    """Train aborts again and keep their vectors beside the report: those asked for, and `most` more
    of each run.

    Returns a line for each that could not be: its events are gone, say.
    """
    chosen = [(run, which) for which in asked for run in found_in(runs, which)]
    chosen += [(run, which) for run in runs for which in choose(instances_frame([run]), most)]
    refused = []
    for run, which in dict.fromkeys(chosen):
        try:
            keep_abort(run, which, output)
        except InputError as error:
            refused.append(f"{run.name}: {error}")
    return refused


def keep_abort(run: Run, which: AbortId, output: Output) -> None:
    """Train one again and keep it."""
    vectors = vectors_at_end(open_store(run.uri), which.arm, which.cycle, which.instance)
    output.put(f"aborts/{run.name}/{which.file}", parquet(vectors))
