"""Retrains aborted instances so that the report can show their vectors and their stories."""

from collections.abc import Sequence

from divergence.errors import InputError
from orchestrator.offline.replay import History, retrained, vectors_at_end
from orchestrator.offline.story import dump_story
from orchestrator.offline.story_of import story_of
from orchestrator.report.aborts import AbortId, choose_aborts, runs_with_abort, story_rank
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
    refused = []
    for run in runs:
        named = [which for which in requested if run in runs_with_abort(runs, which)]
        chosen = dict.fromkeys([*named, *choose_aborts(instances_frame([run]), per_run)])
        ranks = {which: _rank(run, which) for which in chosen}
        for which in chosen:
            with_story = ranks[which] == max(ranks.values())
            try:
                retrain_abort(run, which, with_story, output)
            except InputError as error:
                refused.append(f"{run.name}: {error}")
    return refused


def retrain_abort(run: Run, which: AbortId, with_story: bool, output: Output) -> None:
    """Retrain one aborted instance; store its vectors and, if `with_story`, its story."""
    history = History(open_store(run.uri))
    found = retrained(history, which.arm, which.cycle, which.instance)
    story = story_of(history, found) if with_story else None
    if story is not None:
        output.put(f"aborts/{run.name}/{which.story_filename}", dump_story(story))
    output.put(f"aborts/{run.name}/{which.filename}", parquet(vectors_at_end(found)))


def _rank(run: Run, which: AbortId) -> tuple[bool, int]:
    rule = next(arm.rule.name for arm in run.config.arms if arm.name == which.arm)
    record = next(record for record in run.records[which.arm] if record.cycle == which.cycle)
    done = next(o.events_done for o in record.outcomes if o.instance == which.instance)
    return story_rank(rule, done)
