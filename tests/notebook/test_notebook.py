"""The example notebook, executed by a real kernel."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from orchestrator.storage.open import open_store
from support.configs import simulated
from support.made_up_runs import made_up_records, write_run

NOTEBOOK = Path(__file__).parents[2] / "configs" / "notebook.ipynb"

pytestmark = pytest.mark.slow


def test_the_example_runs_and_shows_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in book.cells), "commit it without outputs"
    arms = "[{name: production, rule: l2}, {name: entropic, rule: entropic}]"
    config = simulated(arms, instances=8)
    store = open_store(str(tmp_path / "runs" / "quickstart"))
    write_run(store, config, made_up_records(config, 30, loss={"entropic": 0.1}))
    (tmp_path / "configs").mkdir()
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    mistake = nbformat.v4.new_code_cell('open_run("nowhere")')
    mistake["metadata"]["tags"] = ["raises-exception"]
    book.cells.append(mistake)
    where = {"metadata": {"path": str(tmp_path / "configs")}}
    NotebookClient(book, timeout=200, resources=where).execute()
    shown = {cell["id"]: cell["outputs"] for cell in book.cells if cell["cell_type"] == "code"}
    kinds = {name: set(outputs[-1].get("data", ())) for name, outputs in shown.items() if outputs}
    assert shown["open"][0]["data"]["text/plain"].startswith("quickstart: 30 cycles, 2 arms")
    assert "<th>production</th>" in shown["means"][0]["data"]["text/html"]
    assert "entropic" in shown["losses"][0]["data"]["text/html"]
    assert "image/png" in kinds["plot"]
    assert shown["retained"][0]["data"]["image/svg+xml"].count("<svg") == 1
    assert '<div class="decision">' in shown["switch"][0]["data"]["text/html"]
    assert (tmp_path / "runs" / "retained.pdf").read_bytes().startswith(b"%PDF")
    (error,) = shown[mistake["id"]]
    assert error["traceback"] == [
        f"InputError: {tmp_path}/configs/nowhere: not a run folder: it has no config.yaml"
    ]
