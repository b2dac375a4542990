"""Puts what a benchmark printed into its section of the README."""

import io
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"


def replace_section(name: str, text: str) -> None:
    """Replace what stands between the two markers of this name."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, _, rest = README.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    README.write_text(f"{before}{begin}\n{text.strip()}\n\n{end}{after}", encoding="utf-8")


class Tee(io.TextIOBase):
    """Standard output that is kept as well."""

    def __init__(self, kept: io.StringIO):
        self.kept, self.shown = kept, sys.stdout

    def write(self, text: str) -> int:
        """Show and keep."""
        self.shown.write(text)
        self.shown.flush()
        return self.kept.write(text)
