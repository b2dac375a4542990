"""What each part of the rule `holdfast` is worth: all eight combinations of its three parts.

    .venv/bin/python scripts/results/ablation.py                  # seeds 1-5
    .venv/bin/python scripts/results/ablation.py --seeds 101      # a development seed

Dual ascent alone is `entropic` but for AdaGrad's sums, which leave out the penalty; nothing at all
is `none`. Streams and searches are those of the matrix. The same command resumes after a stop;
`--page` makes the results page from the table again.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pandas as pd

from scripts.results.rule_table import COLUMNS, seeds_note, table_command
from scripts.results.trials import SELECTIONS

OFF: dict[str, dict[str, float]] = {
    "dual ascent": {"dual_step": 1e-20, "mu0": 1e-30, "mu_floor": 0.0},
    "damping": {"damping": 0.0},
    "wall": {"wall": 1e30},
}
"""The parts of the rule, and the parameters that switch each of them off."""


def variants() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every combination of the parts by name, and its rule."""
    for parts in product((False, True), repeat=len(OFF)):
        on = [part for part, there in zip(OFF, parts, strict=True) if there]
        without = {key: value for part in OFF if part not in on for key, value in OFF[part].items()}
        yield " + ".join(on) or "nothing", {"name": "holdfast", **without}


def page_text(rows: pd.DataFrame) -> Iterator[str]:
    """The generated block of the results page."""
    streams = ", ".join(dict.fromkeys(rows["stream"]))
    yield from seeds_note(rows)
    yield f"Means over {streams}, without the first quarter of the cycles:\n"
    columns = " | ".join(f"{select}: served gain | retained | useful" for select in SELECTIONS)
    yield f"| parts | {columns} |"
    yield "|" + "---|" * (1 + 3 * len(SELECTIONS))
    means = rows.groupby(["rule", "select"], sort=False)[list(COLUMNS)].mean()
    for parts in dict.fromkeys(rows["rule"]):
        cells = (
            f"{means.loc[(parts, select), name]:.1%}"
            for select in SELECTIONS
            for name in ("gain", "retained", "useful")
        )
        yield f"| {parts} | " + " | ".join(cells) + " |"


main = table_command("ablation", dict(variants()), page_text)

if __name__ == "__main__":
    main()
