import numpy as np
import pyarrow as pa

from trainer.chunk import compile_chunk
from trainer.features import Feature, FeatureSpec
from trainer.model import Model, ModelConfig
from trainer.scoring import score, sigmoid
from trainer.vectors import side_vectors

SPEC = FeatureSpec(
    user=(Feature("age"), Feature("tags", multi=True, weights="shares"), Feature("geo")),
    ad=(Feature("campaign"), Feature("words", multi=True)),
)
TABLE = pa.table(
    {
        "age": ["a", None, "b", "a"],
        "tags": [["x", "y"], [], ["y"], ["z", "x", "x"]],
        "shares": [[0.25, 0.75], [], [2.0], [1.0, 1.0, 2.0]],
        "geo": [1, 2, 2, 1],
        "campaign": ["c1", "c2", "c1", ""],
        "words": [["w"], ["w", "v"], None, ["v"]],
    }
)


def test_composed_vectors_score_as_the_kernel_does() -> None:
    """Known values, unknown, missing, weighted and listed twice."""
    model = Model(ModelConfig(SPEC, overlap=2, alone=1, init_std=0.8, seed=3))
    known = compile_chunk(TABLE.slice(0, 2), SPEC, labelled=False)
    start = model.gather(known, 0)
    model.scatter(known, 0, start, start.tables)  # some values known, others still to be drawn
    model.bias[0] = -0.7
    users, ads = side_vectors(model, TABLE, "user"), side_vectors(model, TABLE, "ad")
    assert users.shape == ads.shape == (4, model.shape.ad)
    logits = (users * ads).sum(axis=1) + np.float32(model.bias[0])
    assert np.ptp(logits) > 0.1
    np.testing.assert_allclose(sigmoid(logits), score(model, TABLE), rtol=2e-6)
