"""What the results page shows, in order.

Verdicts and numbers come from the runs. An explanation is written by hand after the runs, and shown
only where the claim was not seen.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResultPart:
    """A section of an experiment's report, and what the results page shows of it."""

    experiment: str
    section: str
    heading: str
    chart: str | None = None
    table: bool = False
    explanation: str = ""


PARTS = (
    ResultPart(
        "demo",
        "retained",
        "The demo: twenty hours, with as many events as a public log has",
        chart="retained",
        explanation="one run of 56 shared cycles is too short for a verdict. Over all five, "
        "production loses over a fifth in one cycle of ten, entropic in one of 280.",
    ),
    ResultPart(
        "week",
        "retained",
        "A week of cycles",
        chart="retained",
        explanation="production loses about 16% of its instances in the first half day and 6 to "
        "8% after three days: AdaGrad's sums of what lasts grow, and steps shrink. The paper's "
        "production system may forget faster, or draw further from its champion: wider draws lose "
        "more, as the next part shows. With every seed entropic loses about a third of what "
        "production loses, and next to never a fifth.",
    ),
    ResultPart("week", "norms", "How large the vectors become", chart="norms"),
    ResultPart("week", "scatter", "Vectors just before an abort", chart="vectors-before-abort"),
    ResultPart(
        "wide",
        "retained",
        "Two days of wider draws (x/÷100)",
        chart="retained",
        explanation="the share of heavy losses is near a tenth, which is where we draw the line "
        "for 'often', and entropic loses one instance in twenty rather than a few in a hundred: "
        "draws as far as the ranges go include settings that no multiplier catches in time.",
    ),
    ResultPart(
        "faint",
        "retained",
        "Two days of faint signals and narrow draws (x/÷10)",
        chart="retained",
        explanation="where signals are faint and draws narrow, hardly anything diverges under any "
        "rule, and dual ascent hardly matters.",
    ),
    ResultPart("lift", "lift", "Two weeks of lift", chart="lift"),
    ResultPart(
        "duel",
        "entropic-euclidean",
        "Entropic against Euclidean",
        chart="entropic-euclidean",
        explanation="with an implicit step and a small floor under the multiplier, Euclidean "
        "ascent with its best step (of five, chosen in hindsight) serves as well as entropic "
        "ascent or better, and its norms are about the same.",
    ),
    ResultPart(
        "rho",
        "bound",
        "The bound and its k",
        chart="k-search",
        explanation="ρ₀ is not too tight here but ten times too loose: k = 0.1 serves as well as "
        "any larger one, and 0.03 is too tight. The largest mean squares of production's "
        "champions are near 0.1 ρ₀.",
    ),
    ResultPart(
        "rules",
        "rules",
        "Every rule",
        explanation="the naive rule retains one to four points more than production, far fewer "
        "than dual ascent, at about the same log-loss. As printed, with ρ₀ itself and an explicit "
        "step, the paper's rule behaves like `none`. Projection, max-norm and clippy are simpler "
        "and retain everything.",
    ),
    ResultPart(
        "map",
        "stability",
        "The edge of stability (15 settings, each kept for a day of 4,000 events a cycle)",
        chart="edge-of-stability",
        table=True,
    ),
    ResultPart("movielens", "retained", "MovieLens 100K", chart="retained"),
    ResultPart("movielens", "lift", "MovieLens 100K: lift"),
    ResultPart("movielens", "scatter", "MovieLens 100K: vectors just before an abort"),
)


def parts_of(experiment: str) -> dict[str, ResultPart]:
    """The parts of an experiment by section."""
    return {part.section: part for part in PARTS if part.experiment == experiment}
