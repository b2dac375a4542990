"""All sections of the report, in order."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.report.aborts import Abort
from orchestrator.report.section import Section
from orchestrator.report.sections.bound import bound
from orchestrator.report.sections.duel import duel
from orchestrator.report.sections.lift import lift
from orchestrator.report.sections.losses import losses
from orchestrator.report.sections.norms import norms
from orchestrator.report.sections.retained import retained
from orchestrator.report.sections.rules import rules
from orchestrator.report.sections.scatter import scatter
from orchestrator.report.sections.seeds import seeds
from orchestrator.report.sections.space import space
from orchestrator.report.sections.stability import stability
from orchestrator.report.study import Study
from orchestrator.report.verdict import unjudged


def sections_of(study: Study, aborts: Sequence[Abort] = ()) -> tuple[Section, ...]:
    """What can be shown of these runs; of runs without cycles, the bound alone."""
    sustained, study = stability(study), study.searching
    if not study.shown:
        return tuple(map(_drawable, [sustained] if sustained else [bound(study)]))
    found = (
        *(_to_the_point(section, study) for section in (retained(study), seeds(study))),
        *(_to_the_point(section, study) for section in (norms(study), lift(study))),
        duel(study),
        scatter(aborts),
        bound(study),
        rules(study),
        sustained,
        losses(study),
        space(study),
    )
    return tuple(_drawable(section) for section in found if section is not None)


def _to_the_point(section: Section | None, study: Study) -> Section | None:
    """With verdicts on the paper only where its question is asked, whatever arms were chosen."""
    if section is None:
        return None
    told = (
        finding if study.asks_the_paper(finding.run) else unjudged(finding)
        for finding in section.findings
    )
    return replace(section, findings=tuple(told))


def _drawable(section: Section) -> Section:
    """Without charts that have nothing to show yet."""
    return replace(section, charts=tuple(chart for chart in section.charts if chart.panels))
