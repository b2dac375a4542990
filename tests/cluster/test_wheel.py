"""The wheel that nodes install holds all that a run and a report need."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PACKAGES = ("divergence", "trainer", "orchestrator")


def test_the_wheel_holds_every_file_of_the_packages(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", str(tmp_path)], check=True, capture_output=True, timeout=200)
    (wheel,) = tmp_path.glob("holdfast-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        (entry,) = [name for name in held if name.endswith("entry_points.txt")]
        assert "holdfast = orchestrator.cli:main" in archive.read(entry).decode()
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    expected = {
        path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert expected <= held
    assert {name.split("/")[0] for name in held if ".dist-info" not in name} == set(PACKAGES)
