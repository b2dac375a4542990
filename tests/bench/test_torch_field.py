"""The field's benchmark with PyTorch, the one peer of the test lane."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from scripts.bench import field
from scripts.bench.fields.torch_fm import FactorizationMachine, TorchChunk

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # six processes that load PyTorch


def test_the_factorization_machine_sums_over_all_pairs() -> None:
    model = FactorizationMachine(values=6, seed=1)
    with torch.no_grad():
        model.weights.weight[:, 0] = torch.arange(6.0)
        model.bias += 0.5
    start, value = torch.tensor([0, 3, 5]), torch.tensor([0, 2, 3, 1, 5])
    weight = torch.tensor([1.0, 0.25, 0.75, 1.0, 1.0])
    events = TorchChunk(torch.zeros(2), start, value, weight)
    logits = model(events).detach().numpy()
    factors = model.factors.weight.detach().numpy()
    for i, (first, last) in enumerate([(0, 3), (3, 5)]):
        own = [(int(value[j]), float(weight[j])) for j in range(first, last)]
        pairs = sum(w * x * factors[v] @ factors[u] for (v, w), (u, x) in combinations(own, 2))
        assert logits[i] == pytest.approx(0.5 + sum(v * w for v, w in own) + pairs, rel=1e-5)
    part = events.part(1, 2)
    np.testing.assert_allclose(model(part).detach().numpy(), logits[1:], rtol=1e-6)


def test_the_whole_benchmark_with_what_is_installed(tmp_path: Path) -> None:
    arguments = ["--quick", "--seeds", "102", "--out", str(tmp_path), "--processes", "2"]
    for peer in ("holdfast", "torch", "libffm"):
        arguments += ["--peer", peer]
    shown = CliRunner().invoke(field.main, arguments, catch_exceptions=False)
    assert shown.exit_code == 0
    assert "2 learners; all of it takes about" in shown.output
    assert "**Not run**, as it was not available here: libFFM, as shipped (`--libffm PATH`)." in (
        shown.output
    )
    assert f"torch {torch.__version__}" in shown.output
    files = sorted(tmp_path.iterdir())
    assert len(files) == 6  # for each a search, a report, and ten times the step size
    again = CliRunner().invoke(field.main, arguments, catch_exceptions=False)
    assert "[search" not in again.output  # nothing runs twice
    assert sorted(tmp_path.iterdir()) == files
    runs = [run for path in files for run in json.loads(path.read_text())]
    assert all(run["cpu_s"] > 0 and run["trained"] == sum(run["events"]) for run in runs)
