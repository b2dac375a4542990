"""All sections of the report, in order."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.report.aborts import Abort, best_stories
from orchestrator.report.section import Section
from orchestrator.report.sections.abort_vectors import abort_vectors
from orchestrator.report.sections.bound import bound
from orchestrator.report.sections.entropic_vs_euclidean import entropic_vs_euclidean
from orchestrator.report.sections.lift import lift
from orchestrator.report.sections.lines import lines
from orchestrator.report.sections.lost_instances import lost_instances
from orchestrator.report.sections.norms import norms
from orchestrator.report.sections.regime import regime
from orchestrator.report.sections.retained import retained
from orchestrator.report.sections.rules import rules
from orchestrator.report.sections.seeds import seeds
from orchestrator.report.sections.settings import settings
from orchestrator.report.sections.stability import stability
from orchestrator.report.sections.story import story_section
from orchestrator.report.study import Study
from orchestrator.report.verdict import few_once, without_verdict

OWN_ORDER = ("rules", "lift", "retained", "losses", "settings", "regime")
"""The first sections of a report on runs that do not repeat the paper's design."""


def sections_of(study: Study, aborts: Sequence[Abort] = ()) -> tuple[Section, ...]:
    """The report's sections in order; runs without cycles get the bound only.

    The order is the paper's if the runs have its design; else what helps to choose an arm is first.
    To add a section, write a module of `sections` with a function of the study, and call it here.
    """
    searching = study.searching
    if not searching.shown:
        return (_finished(stability(study) or bound(searching), searching),)
    found = (
        retained(searching),
        seeds(searching),
        norms(searching),
        lift(searching),
        entropic_vs_euclidean(searching),
        abort_vectors(aborts),
        story_section(best_stories(aborts)),
        bound(searching),
        rules(searching),
        regime(searching),
        stability(study),
        lost_instances(searching),
        settings(searching),
        lines(searching),
    )
    shown = [_finished(section, searching) for section in found if section is not None]
    if not searching.is_paper_design:
        order = dict(zip(OWN_ORDER, range(len(OWN_ORDER)), strict=True))
        shown.sort(key=lambda section: order.get(section.key, len(order)))
    return tuple(shown)


def _finished(section: Section, study: Study) -> Section:
    """Remove empty charts, repetitions, and verdicts on what the paper does not compare."""
    charts = tuple(chart for chart in section.charts if chart.panels)
    findings = section.findings
    if section.compares_main_arms:
        findings = tuple(
            f if study.is_paper_comparison(f.run) else without_verdict(f) for f in findings
        )
    findings = tuple(replace(f, text=few_once(f.text)) for f in findings)
    return replace(section, charts=charts, findings=findings)
