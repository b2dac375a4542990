"""The generated blocks of the documentation: a script writes its own between two markers."""

import io
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCH = "scripts/bench/README.md"
RESULTS = "scripts/results/README.md"
CLUSTER = "configs/cluster/README.md"


def replace_block(page: str, name: str, text: str) -> None:
    """Replace what is between the two markers of this name on a page of the repository."""
    path = ROOT / page
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, found_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{page} has no lines '{begin.strip()}' and '{end}'")
    path.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


class Tee(io.TextIOBase):
    """Standard output that also keeps what is written."""

    def __init__(self, kept: io.StringIO):
        self.kept, self.shown = kept, sys.stdout

    def write(self, text: str) -> int:
        """Show and keep."""
        self.shown.write(text)
        self.shown.flush()
        return self.kept.write(text)
