"""Writes the outcome of an A/B test (`holdfast ab run`) to scripts/results/README.md."""

from collections.abc import Sequence

import click

from orchestrator.ab.folder import ab_config, load, lost_shares
from orchestrator.ab.summary import METRICS, Lift, plain_verdict, summarise, verdict_text
from orchestrator.report.verdict import lift_text
from orchestrator.storage.open import open_store
from scripts.results.readme import RESULTS, replace_block


@click.command()
@click.argument("folder")
@click.argument("equal_arms", required=False)
def main(folder: str, equal_arms: str | None) -> None:
    """Write scripts/results/README.md from the A/B test in FOLDER.

    EQUAL_ARMS is the folder of an A/A test, whose two arms are the same: it shows how far lifts
    stray by chance.
    """
    store = open_store(folder)
    config, finished = ab_config(store), load(store)
    summary = summarise([one.trial for one in finished])
    lost = lost_shares(finished)
    means = [100 * sum(pair[arm] for pair in lost) / len(lost) for arm in (0, 1)]
    clicks = summary.whole.control.clicks + summary.whole.treatment.clicks
    control, treatment = summary.arms
    text = [
        f"{len(summary.trials)} trials of {config.days} days, {clicks:,} clicks in all; {control} "
        f"lost {means[0]:.1f}% of its instances to divergence, {treatment} {means[1]:.1f}%.",
        "",
        f"**In plain words: {plain_verdict(summary)}**",
        "",
        *(f"- {verdict_text(summary, metric)}" for metric in METRICS),
        "",
        *_table("day", summary.days),
        "",
        *_table("trial", [*summary.trials, summary.whole]),
    ]
    if equal_arms is not None:
        text += ["", _equal_arms(equal_arms)]
    replace_block(RESULTS, "ab_test", "\n".join(text))


def _equal_arms(folder: str) -> str:
    store = open_store(folder)
    summary = summarise([one.trial for one in load(store)])
    listed = [", ".join(f"{lift.observed[i]:+.2f}%" for lift in summary.trials) for i in (0, 1)]
    bounds = [found for trial in summary.trials for found in trial.credible]
    missed = sum(not found.low <= 0 <= found.high for found in bounds)
    return (
        f"The same with production in both buckets (A/A, {ab_config(store).days} days): lifts of "
        f"CTR {listed[0]}, of CPM {listed[1]}, where nothing differs but the users and what was "
        f"learnt from them. {missed} of the {len(bounds)} credible intervals exclude zero all the "
        "same: in a market that learns from itself a single test is not to be trusted."
    )


def _table(first: str, lifts: Sequence[Lift]) -> list[str]:
    rows = [
        f"| {lift.name} | {lift_text(lift.credible[1])} | {lift_text(lift.credible[0])} |"
        for lift in lifts
    ]
    return [f"| {first} | CPM lift | CTR lift |", "|---|---|---|", *rows]


if __name__ == "__main__":
    main()
