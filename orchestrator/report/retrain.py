"""Retrains aborted instances so that the report can show their vectors and their stories."""

from collections.abc import Sequence

from divergence.errors import InputError
from orchestrator.offline.replay import History, retrained, vectors_at_end
from orchestrator.offline.story import dump_story
from orchestrator.offline.story_of import story_of
from orchestrator.report.aborts import AbortId, choose_aborts, runs_with_abort
from orchestrator.report.frames import instances_frame
from orchestrator.report.load import Run
from orchestrator.report.write import parquet
from orchestrator.storage.open import open_store
from orchestrator.storage.output import Output


def retrain_aborts(
    runs: Sequence[Run], per_run: int, requested: Sequence[AbortId], output: Output
) -> list[str]:
    """Retrain the requested aborts and `per_run` more of each run; store what the report shows.

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
    """Retrain one aborted instance; store its vectors and, if any of them grew, its story."""
    history = History(open_store(run.uri))
    found = retrained(history, which.arm, which.cycle, which.instance)
    story = story_of(history, found)
    if story is not None:
        output.put(f"aborts/{run.name}/{which.story_filename}", dump_story(story))
    output.put(f"aborts/{run.name}/{which.filename}", parquet(vectors_at_end(found)))
