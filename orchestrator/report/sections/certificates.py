"""Which arms cannot lose an instance to divergence, and how far the others exceed their bound."""

from divergence.errors import InputError
from orchestrator.config.certificate import Certificate, certificate
from orchestrator.report.length import model_shape
from orchestrator.report.load import Run
from orchestrator.report.section import Cell, ReportTable, number
from orchestrator.report.study import Study
from orchestrator.report.verdict import Finding


def certificates(run: Run) -> list[Certificate]:
    """Of the arms whose rules have a bound, or scale vectors back to a largest norm."""
    shape = model_shape(run.config)
    if shape is None:
        return []
    found = []
    for arm in run.config.arms:
        try:
            one = certificate(run.config, arm, shape)
        except InputError:  # a rule of the user's own, whose code may not run here
            continue
        if one.norm is not None or one.rho is not None:
            found.append(one)
    return found


def certificate_findings(run: Run) -> list[Finding]:
    """The arms that cannot diverge, and why."""
    return [
        Finding(f"{one.text}.", None, run.name) for one in certificates(run) if one.cannot_diverge
    ]


def certificate_tables(study: Study) -> list[ReportTable]:
    """One row for each arm with a bound: what its steps allow, and where its champions were.

    Champions are recorded once a cycle. By how much and for how many events a vector was beyond its
    bound between two records, only a replay can tell.
    """
    rows = [_row(study, run, one) for run in study.shown for one in certificates(run)]
    columns = (
        "run",
        "arm",
        "can diverge",
        "largest norm after a step",
        "cycles with a vector beyond the bound",
        "largest mean square / bound",
    )
    return [ReportTable("The bound as a certificate", columns, tuple(rows))] if rows else []


def _row(study: Study, run: Run, one: Certificate) -> tuple[Cell, ...]:
    beyond = largest = None
    if one.rho is not None and one.arm in run.records:
        sizes = study.of(run, one.arm)["max_msqr"].dropna()
        if len(sizes):
            beyond, largest = 100 * float((sizes > one.rho).mean()), float(sizes.max()) / one.rho
    return (
        Cell(run.name),
        Cell(one.arm, tone=study.arms.index(one.arm) if one.arm in study.arms else None),
        Cell("no" if one.cannot_diverge else "yes"),
        number(one.norm, ".3g"),
        number(beyond, ".0f", "%"),
        number(largest, ".2g"),
    )
