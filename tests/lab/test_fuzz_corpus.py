"""Every input that ever failed is now handled well: no traceback, hang, crash or stray write."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
CASES = sorted(path.name for path in CORPUS.glob("*.case"))
NOT_MENDED_YET = frozenset((Path(__file__).parent / "not_mended.txt").read_text().split())
"""Cases that still fail."""


@pytest.fixture(scope="module")
def findings() -> dict[str, str | None]:
    """What is wrong with each case; they run in children of a process that may be lost."""
    ended = subprocess.run(
        [sys.executable, "-m", "scripts.lab.fuzz", "--replay", str(CORPUS)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(lines) == len(CASES), ended.stderr
    return {Path(line["file"]).name: line["finding"] for line in lines}


@pytest.mark.parametrize("name", CASES)
def test_an_input_that_failed_once(findings: dict[str, str | None], name: str) -> None:
    if name in NOT_MENDED_YET:
        if findings[name] is None:
            pytest.fail("mended: remove it from not_mended.txt")
        pytest.xfail(str(findings[name]))
    assert findings[name] is None


def test_the_same_seed_gives_the_same_inputs() -> None:
    from scripts.lab.fuzzing.kinds import KINDS
    from scripts.lab.fuzzing.workers import case_of

    twice = [[case_of(7, i, list(KINDS)).encode() for i in range(60)] for _ in range(2)]
    assert twice[0] == twice[1]


def test_a_case_is_read_back_from_its_file() -> None:
    from scripts.lab.fuzzing.case import Case

    case = Case("config", b"seed: 1\n\xff", {"set": ["a=\ud800"]})
    assert Case.decode(case.encode()) == case
