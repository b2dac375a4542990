"""A model for another config keeps what both have: entries by what they mean, not by place."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from divergence.errors import InputError
from trainer.chunk import compile_chunk
from trainer.convert import converted
from trainer.features import Feature, FeatureSpec
from trainer.model import Model, ModelConfig
from trainer.scoring import score

AGE, GEO, HOUR, SEX = (Feature(name) for name in ("age", "geo", "hour", "sex"))
AD, CAMPAIGN = Feature("ad"), Feature("campaign")
SPEC = FeatureSpec(user=(AGE, GEO, HOUR), ad=(AD, CAMPAIGN), timestamp=None)
CONFIG = ModelConfig(SPEC, overlap=2, alone=1, init_std=0.5, seed=5)
TABLE = pa.table(
    {f.name: [f"{f.name}{i % n}" for i in range(12)]
     for n, f in enumerate((AGE, GEO, HOUR, SEX, AD, CAMPAIGN), 2)}
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Model:
    made = Model(CONFIG)
    chunk = compile_chunk(TABLE, SPEC, labelled=False)
    start = made.gather(chunk, 7)
    made.scatter(chunk, 7, start, start.tables)
    for side in (made.user, made.ad):
        side.rows[:, 1:] = 3.0
    made.bias[:] = -1.0, 2.0
    return made


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(CONFIG, spec=replace(SPEC, user=(HOUR, AGE, GEO), ad=(CAMPAIGN, AD))),
        replace(CONFIG, overlap=3, alone=2, init_std=1e-15),
        replace(CONFIG, spec=replace(SPEC, user=(SEX, *SPEC.user)), init_std=1e-15),
        replace(CONFIG, spec=replace(SPEC, ad=(AD, SEX, CAMPAIGN)), init_std=1e-15),
    ],
    ids=["the same", "another order", "another geometry", "a user feature", "an ad feature"],
)
def test_scores_stay_the_same_where_nothing_is_lost(model: Model, config: ModelConfig) -> None:
    """With the new entries almost zero."""
    made = converted(model, config)
    np.testing.assert_allclose(score(made, TABLE), score(model, TABLE), rtol=1e-5)
    assert np.ptp(score(model, TABLE)) > 0.05
    assert made.user.rows[made.user.alive(), 1].max() == 3.0
    assert set(made.user.seen[made.user.alive()].tolist()) == {-1}
    assert made.bias.tolist() == model.bias.tolist()
    assert made.expire(-2) == ()
    assert len(made.expire(-1)) == len(model)


def test_a_feature_that_is_gone_takes_its_vectors_along(model: Model) -> None:
    config = replace(CONFIG, spec=replace(SPEC, user=(AGE, HOUR), ad=(AD,)))
    made = converted(model, config)
    assert {config.spec.features[n].name for n, _ in [*made.user.index, *made.ad.index]} == {
        "age",
        "hour",
        "ad",
    }
    alone = converted(made, replace(config, spec=replace(SPEC, user=(AGE, HOUR), ad=(AD,))))
    np.testing.assert_array_equal(score(alone, TABLE), score(made, TABLE))


def test_models_without_a_feature_in_common(model: Model) -> None:
    with pytest.raises(InputError, match="no user feature in common: age, geo, hour there, sex"):
        converted(model, replace(CONFIG, spec=replace(SPEC, user=(SEX,))))
    with pytest.raises(InputError, match="no ad feature in common"):
        converted(model, replace(CONFIG, spec=replace(SPEC, ad=(SEX,))))
