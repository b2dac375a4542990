"""All sections of the report, in order."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.report.aborts import Abort
from orchestrator.report.section import Section
from orchestrator.report.sections.abort_vectors import abort_vectors
from orchestrator.report.sections.bound import bound
from orchestrator.report.sections.entropic_vs_euclidean import entropic_vs_euclidean
from orchestrator.report.sections.lift import lift
from orchestrator.report.sections.lost_instances import lost_instances
from orchestrator.report.sections.norms import norms
from orchestrator.report.sections.retained import retained
from orchestrator.report.sections.rules import rules
from orchestrator.report.sections.seeds import seeds
from orchestrator.report.sections.settings import settings
from orchestrator.report.sections.stability import stability
from orchestrator.report.study import Study
from orchestrator.report.verdict import without_verdict


def sections_of(study: Study, aborts: Sequence[Abort] = ()) -> tuple[Section, ...]:
    """All sections that these runs allow; runs without cycles get the bound only."""
    sustained, study = stability(study), study.searching
    if not study.shown:
        return tuple(map(_without_empty_charts, [sustained] if sustained else [bound(study)]))
    found = (
        *(_paper_verdicts_only(section, study) for section in (retained(study), seeds(study))),
        *(_paper_verdicts_only(section, study) for section in (norms(study), lift(study))),
        entropic_vs_euclidean(study),
        abort_vectors(aborts),
        bound(study),
        rules(study),
        sustained,
        lost_instances(study),
        settings(study),
    )
    return tuple(_without_empty_charts(section) for section in found if section is not None)


def _paper_verdicts_only(section: Section | None, study: Study) -> Section | None:
    """Remove the verdicts of runs whose compared arms are not those that the paper compares."""
    if section is None:
        return None
    findings = (
        finding if study.is_paper_comparison(finding.run) else without_verdict(finding)
        for finding in section.findings
    )
    return replace(section, findings=tuple(findings))


def _without_empty_charts(section: Section) -> Section:
    """Remove charts that have nothing to show yet."""
    return replace(section, charts=tuple(chart for chart in section.charts if chart.panels))
