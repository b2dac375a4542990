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
    """The report's story, in order; of runs without cycles, the bound alone.

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
        duel(searching),
        scatter(aborts),
        bound(searching),
        rules(searching),
        stability(study),
        losses(searching),
        space(searching),
    )
    return tuple(_finished(section, searching) for section in found if section is not None)


def _finished(section: Section, study: Study) -> Section:
    """Without charts that have nothing to show, and verdicts on questions the paper did not ask."""
    charts = tuple(chart for chart in section.charts if chart.panels)
    findings = section.findings
    if section.compares_main_arms:
        findings = tuple(f if study.asks_the_paper(f.run) else unjudged(f) for f in findings)
    return replace(section, charts=charts, findings=findings)
