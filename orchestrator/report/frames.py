"""Records as tables: one row per run, arm and cycle, one per instance, and one per line."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import pandas as pd

from orchestrator.journal.record import CycleRecord, count_outcomes, winning_outcome
from orchestrator.report.load import Run
from orchestrator.search.lineages import LineState
from trainer.setting import PARAMETERS, Setting

OTHERS = ("rule.", "setting.")
"""How the columns of other parameters begin: with OFFSET, and with another trainer."""
INTEGERS = ("seed", "cycle", "events", "clicks", "launched", "retained", "diverged", "failed",
            "late", "useful", "caution", "winner", "instance", "events_done", "tries",
            "diverged_event", "line", "parent", "born")  # fmt: skip
TEXT = ("run", "arm", "rule", "started", "status", "diverged_feature", "diverged_value", "reason",
        "why")  # fmt: skip
FLAGS = ("won", "champion", "member", "replaced")

CYCLES = ("run", "seed", "arm", "rule", "cycle", "started", "events", "clicks", "constant_logloss",
          "launched", "retained", "diverged", "failed", "late", "useful", "retained_fraction",
          "useful_fraction", "caution", "winner", *PARAMETERS, "logloss", "served_logloss",
          "max_inf", "mean_top10_inf", "max_msqr", "seconds", "train_seconds")  # fmt: skip
INSTANCES = ("run", "arm", "cycle", "instance", *PARAMETERS, "status", "won", "logloss", "events",
             "events_done", "seconds", "tries", "diverged_event", "diverged_feature",
             "diverged_value", "diverged_norm", "reason")  # fmt: skip
LINES = ("run", "arm", "cycle", "line", *PARAMETERS, "status", "logloss", "served_logloss",
         "parent", "born", "champion", "member", "replaced", "why")  # fmt: skip


def cycles_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run, arm and cycle, in that order; the setting is the winner's.

    Both fractions count only instances that were retained or diverged; failed and late instances
    have columns of their own.
    """
    runs = tuple(runs)
    columns = (*CYCLES, *other_columns(runs))
    return _frame((_cycle_row(*entry, columns) for entry in _records(runs)), columns)


def instances_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per instance, in the order of the cycles."""
    runs = tuple(runs)
    others = other_columns(runs)
    rows = (row for run, _, record in _records(runs) for row in _instance_rows(run, record, others))
    return _frame(rows, (*INSTANCES, *others))


def lines_frame(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per line and cycle, as it served and trained in that cycle, in their order.

    Empty for runs whose `search.select` is not lineages.
    """
    runs = tuple(runs)
    others = other_columns(runs)
    arms = ((run, records) for run in runs for records in run.records.values())
    rows = (row for run, records in arms for row in _line_rows(run, records, others))
    return _frame(rows, (*LINES, *others))


def other_columns(runs: Iterable[Run]) -> tuple[str, ...]:
    """A column for each parameter that is searched and not in PARAMETERS: `rule.NAME`, or
    `setting.NAME` with another trainer than OFFSET."""
    settings = (o.setting for _, _, record in _records(runs) for o in record.outcomes[:1])
    return tuple(sorted({name for setting in settings for name in _others(setting)}))


def _others(setting: Setting) -> dict[str, float]:
    prefix = OTHERS[setting.eta0 is None]
    return {f"{prefix}{name}": value for name, value in (setting.others or {}).items()}


def _records(runs: Iterable[Run]) -> Iterator[tuple[Run, str, CycleRecord]]:
    for run in runs:
        rules = {arm.name: arm.rule.name for arm in run.config.arms}
        for arm, records in run.records.items():
            for record in records:
                yield run, rules[arm], record


def _cycle_row(
    run: Run, rule: str, record: CycleRecord, columns: tuple[str, ...]
) -> tuple[Any, ...]:
    row = {"run": run.name, "rule": rule} | cycle_values(record)
    return tuple(row.get(name) for name in columns)


def cycle_values(record: CycleRecord) -> dict[str, Any]:
    """The columns of a cycle that its record knows, by name; None where there is no value."""
    count, best, norms = count_outcomes(record), winning_outcome(record), record.norms
    decided = count.retained + count.diverged
    row = {
        "useful_fraction": count.useful / decided if decided else None,
        "logloss": best.logloss if best else None,
        "max_inf": norms.max_inf if norms else None,
        "mean_top10_inf": norms.top10_inf if norms else None,
        "max_msqr": norms.max_msqr if norms else None,
        "seconds": record.timings.get("cycle"),
        "train_seconds": sum(outcome.seconds for outcome in record.outcomes),
        **asdict(count),
        **(asdict(best.setting) | _others(best.setting) if best else {}),
    }
    for name in ("seed", "arm", "cycle", "started", "caution", "winner", "served_logloss"):
        row[name] = getattr(record, name)
    for name in ("events", "clicks", "constant_logloss"):
        row[name] = getattr(record.chunk, name)
    return row


def _instance_rows(
    run: Run, record: CycleRecord, others: tuple[str, ...]
) -> Iterator[tuple[Any, ...]]:
    for one in record.outcomes:
        lost = one.divergence
        yield (
            run.name,
            record.arm,
            record.cycle,
            one.instance,
            *(getattr(one.setting, name) for name in PARAMETERS),
            one.status.value,
            one.instance == record.winner,
            one.logloss,
            record.chunk.events,
            one.events_done,
            one.seconds,
            one.tries,
            lost.event if lost else None,
            lost.feature if lost else None,
            lost.value if lost else None,
            lost.norm if lost else None,
            one.reason,
            *map(_others(one.setting).get, others),
        )


def _line_rows(
    run: Run, records: Iterable[CycleRecord], others: tuple[str, ...]
) -> Iterator[tuple[Any, ...]]:
    """A record holds the lines after its cycle: one that was replaced is in the record before."""
    before: tuple[LineState, ...] = ()
    for record in (one for one in records if one.lineages is not None and one.outcomes):
        after = record.lineages
        assert after is not None
        lost = {one.line: one.reason for one in after.replaced}
        for number, one in enumerate(record.outcomes[: len(after.served)]):
            known = before if number in lost else after.state.lines
            line = known[number] if number < len(known) else None
            champion = number == after.state.champion
            yield (
                run.name,
                record.arm,
                record.cycle,
                number,
                *(getattr(one.setting, name) for name in PARAMETERS),
                one.status.value,
                one.logloss,
                after.served[number],
                line.parent if line else None,
                line.born if line else None,
                champion,
                number in after.state.members,
                number in lost,
                lost.get(number, after.why if champion else None),
                *map(_others(one.setting).get, others),
            )
        before = after.state.lines


def _frame(rows: Iterable[tuple[Any, ...]], columns: tuple[str, ...]) -> pd.DataFrame:
    """A frame whose types depend on the column names only, so that an empty run has them too."""
    kinds = dict.fromkeys(INTEGERS, "Int64") | dict.fromkeys(TEXT, "str")
    kinds |= dict.fromkeys(FLAGS, "bool")
    frame = pd.DataFrame.from_records(list(rows), columns=list(columns))
    return frame.astype({name: kinds.get(name, "float64") for name in columns})
