"""Writes the outcome of an A/B test (`holdfast ab run`) to scripts/results/README.md."""

from collections.abc import Sequence

import click

from orchestrator.ab.folder import ab_config, load, summaries
from orchestrator.ab.summary import METRICS, Lift, Summary, plain_verdict, verdict_text
from orchestrator.report.verdict import lift_text
from orchestrator.storage.open import open_store
from scripts.results.readme import RESULTS, replace_block

TITLES = {"split": "Users split by a hash", "twins": "Twins"}


@click.command()
@click.argument("folder")
@click.argument("equal_arms", required=False)
def main(folder: str, equal_arms: str | None) -> None:
    """Write scripts/results/README.md from the A/B test in FOLDER.

    EQUAL_ARMS is the folder of an A/A test, whose two arms are the same: it shows how far lifts
    stray by chance.
    """
    text = [line for summary in summaries(load(open_store(folder))) for line in _outcome(summary)]
    if equal_arms is not None:
        text += _equal_arms(equal_arms)
    replace_block(RESULTS, "ab_test", "\n".join(text).rstrip())


def _outcome(summary: Summary) -> list[str]:
    """The verdicts and tables of one design."""
    means = [100 * sum(pair[arm] for pair in summary.lost) / len(summary.lost) for arm in (0, 1)]
    clicks = summary.whole.control.clicks + summary.whole.treatment.clicks
    control, treatment = summary.arms
    return [
        f"### {TITLES[summary.design]}",
        "",
        f"{len(summary.trials)} trials of {len(summary.days)} days, {clicks:,} clicks in all; "
        f"{control} lost {means[0]:.1f}% of its instances to divergence, {treatment} "
        f"{means[1]:.1f}%.",
        "",
        f"**In plain words: {plain_verdict(summary)}**",
        "",
        *(f"- {verdict_text(summary, metric)}" for metric in METRICS),
        "",
        f"All intervals below are 95% {summary.interval_name} intervals.",
        "",
        *_table("day", [*summary.days, summary.whole]),
        "",
        *_table("trial", summary.trials),
        "",
    ]


def _equal_arms(folder: str) -> list[str]:
    store = open_store(folder)
    days = ab_config(store).days
    text = ["### The same arm twice (A/A)", ""]
    for summary in summaries(load(store)):
        listed = [", ".join(f"{lift.observed[i]:+.2f}%" for lift in summary.trials) for i in (0, 1)]
        bounds = [found for trial in summary.trials for found in trial.interval]
        missed = sum(not found.low <= 0 <= found.high for found in bounds)
        text.append(
            f"- {summary.design}, {days} days: lifts of CTR {listed[0]}, of CPM {listed[1]}; "
            f"{missed} of the {len(bounds)} {summary.interval_name} intervals exclude zero."
        )
    return text


def _table(first: str, lifts: Sequence[Lift]) -> list[str]:
    rows = [
        f"| {lift.name} | {lift_text(lift.interval[1])} | {lift_text(lift.interval[0])} |"
        for lift in lifts
    ]
    return [f"| {first} | CPM lift | CTR lift |", "|---|---|---|", *rows]


if __name__ == "__main__":
    main()
