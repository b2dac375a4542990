"""What the events of a run are like, beside public click logs: whether its stream is realistic."""

from orchestrator.report.load import Run
from orchestrator.report.regime.place import served_gains
from orchestrator.report.study import Study
from orchestrator.sources.public_logs import public_logs


def stream_line(study: Study, run: Run) -> str | None:
    """CTR, lifetimes and predictability of a run's stream; None if too few cycles were served."""
    gains = served_gains(study, run)
    if not gains:
        return None
    best = max(gains, key=lambda arm: gains[arm])
    base = study.baseline_of(run)
    events = study.of(run, best).loc[study.shared(run), ["events", "clicks"]].sum()
    lifetime = getattr(run.config.source, "campaign_lifetime_h", None)
    lives = f", campaigns that last {lifetime:g} hours on average" if lifetime else ""
    other = f", {gains[base]:.0%} with {base}" if base != best and base in gains else ""
    return (
        f"the stream: a CTR of {events['clicks'] / events['events']:.2%}{lives}; served log-loss "
        f"{gains[best]:.0%} below that of a constant CTR with {best}{other} (well-trained models "
        f"on public logs: {public_logs()})"
    )


def stream_lines(study: Study) -> list[str]:
    """A line for each run that searches; it names the run if there are several."""
    found = {run.name: stream_line(study, run) for run in study.searching.shown}
    several = len(study.shown) > 1
    return [f"{name}: {line}" if several else line for name, line in found.items() if line]
