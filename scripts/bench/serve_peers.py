"""The obvious ways to serve the same model: NumPy, and ONNX Runtime behind FastAPI.

    .venv/bin/python -m scripts.bench.serve_peers PLACE

serves the newest champion of a published place with the second one. They know neither raw values
nor unseen ones, weigh values only as the benchmark does, check little and swap nothing.
"""

import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from orchestrator.publish.origin import open_origin
from orchestrator.serving.scorer import Scorer
from orchestrator.serving.snapshot import Snapshot
from trainer.vectors import _places, user_vectors

LISTED = "interests"
WEIGHTS = "interest_weights"
Rows = tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]


class Lookup:
    """Rows of the values of a request: [features, 3] with weights for the user, [ads, features]."""

    def __init__(self, model: Snapshot) -> None:
        self.user = list(zip((f.name for f in model.user.features), model.user.rows, strict=True))
        self.ad = list(zip((f.name for f in model.ad.features), model.ad.rows, strict=True))

    def rows(self, user: dict[str, Any], ads: list[dict[str, Any]]) -> Rows:
        """The rows of a request."""
        found, weights = [], []
        for name, known in self.user:
            values = user[name] if name == LISTED else [user[name], user[name], user[name]]
            found.append([known[value] for value in values])
            weights.append(user[WEIGHTS] if name == LISTED else [1.0, 0.0, 0.0])
        of_ads = [[known[ad[name]] for name, known in self.ad] for ad in ads]
        return np.array(found), np.array(weights, np.float32)[:, :, None], np.array(of_ads)


class NumpyScorer:
    """Gathers, adds and multiplies with NumPy."""

    def __init__(self, model: Snapshot) -> None:
        self._model, self._lookup = model, Lookup(model)

    def __call__(self, user: dict[str, Any], ads: list[dict[str, Any]]) -> Any:
        """The click probabilities."""
        model = self._model
        rows, weights, of_ads = self._lookup.rows(user, ads)
        parts = (model.user.vectors[rows] * weights).sum(axis=1)
        vector = user_vectors(parts[None], model.config.shape)[0]
        logits = model.ad.vectors[of_ads].sum(axis=1) @ vector + np.float32(model.bias)
        return 1.0 / (1.0 + np.exp(-logits))


class OnnxScorer:
    """The same as a graph of ONNX."""

    def __init__(self, model: Snapshot) -> None:
        self._lookup = Lookup(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            graph(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )

    def __call__(self, user: dict[str, Any], ads: list[dict[str, Any]]) -> Any:
        """The click probabilities."""
        names = ("user_rows", "weights", "ad_rows")
        given = dict(zip(names, self._lookup.rows(user, ads), strict=True))
        return self._session.run(None, given)[0]


def graph(model: Snapshot) -> onnx.ModelProto:
    """Vectors gathered, weighted and added; products of pairs and lone entries; the sigmoid."""
    shape = model.config.shape
    left, right, alone = _places(shape.features, shape.overlap, shape.alone)
    constants = {
        "users": model.user.vectors, "ads": model.ad.vectors, "bias": np.float32(model.bias),
        "left": left, "right": right, "alone": alone, "axis": np.array([1]), "flat": np.array([-1]),
    }  # fmt: skip
    steps = (
        ("Gather", ["users", "user_rows"], "values"), ("Mul", ["values", "weights"], "weighted"),
        ("ReduceSum", ["weighted", "axis"], "parts3"), ("Reshape", ["parts3", "flat"], "parts"),
        ("Gather", ["parts", "left"], "a"), ("Gather", ["parts", "right"], "b"),
        ("Mul", ["a", "b"], "pairs"), ("Gather", ["parts", "alone"], "lone"),
        ("Concat", ["pairs", "lone"], "user"), ("Gather", ["ads", "ad_rows"], "ad_values"),
        ("ReduceSum", ["ad_values", "axis"], "ad3"), ("MatMul", ["ad3", "user"], "product"),
        ("Add", ["product", "bias"], "logits"), ("Sigmoid", ["logits"], "pctr"),
    )  # fmt: skip
    extra: dict[str, dict[str, Any]] = {"Concat": {"axis": 0}, "ReduceSum": {"keepdims": 0}}
    nodes = [helper.make_node(op, names, [out], **extra.get(op, {})) for op, names, out in steps]
    inputs = [
        helper.make_tensor_value_info("user_rows", TensorProto.INT64, [shape.features, 3]),
        helper.make_tensor_value_info("weights", TensorProto.FLOAT, [shape.features, 3, 1]),
        helper.make_tensor_value_info("ad_rows", TensorProto.INT64, ["ads", len(model.ad.rows)]),
    ]
    output = helper.make_tensor_value_info("pctr", TensorProto.FLOAT, ["ads"])
    weights = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    made = helper.make_graph(nodes, "offset", inputs, [output], weights)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    """Serve with ONNX Runtime behind FastAPI."""
    import socket

    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class PeerRequest(BaseModel):
        user: dict[str, Any]
        ads: list[dict[str, Any]]

    app = FastAPI()
    score = OnnxScorer(Scorer(open_origin(sys.argv[1])).current)

    async def answer(request: PeerRequest) -> dict[str, list[float]]:
        return {"pctr": score(request.user, request.ads).tolist()}

    app.post("/v1/score")(answer)
    # asyncio turns Nagle's algorithm off only where the protocol is named: else 40 ms an answer
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        print(f"ONNX Runtime behind FastAPI on http://127.0.0.1:{listening.getsockname()[1]}")
        sys.stdout.flush()
        config = uvicorn.Config(app, log_level="warning", access_log=False, http="httptools")
        uvicorn.Server(config).run(sockets=[listening])


if __name__ == "__main__":
    main()
