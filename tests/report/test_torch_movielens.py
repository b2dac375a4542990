"""The example with PyTorch, on a made-up file in the format of MovieLens 100K."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from orchestrator.charts.picture import svg
from scripts.results.readme import ROOT
from scripts.results.torch_movielens import (
    CURVES,
    FIGURE,
    PAGE,
    RULES,
    STEP_SIZES,
    TABLE,
    chart,
    main,
    page_text,
)
from scripts.results.two_tower import TAU, TowerTrial, read_ratings, train

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = np.random.default_rng(101)
    user, movie = draw.integers(0, 60, 2500), draw.integers(0, 90, 2500)
    liked = draw.normal(size=(60, 3))[user] * draw.normal(size=(90, 3))[movie]
    genres = [["Drama"], ["Comedy", "Romance"], ["Action", "War", "Drama"]]
    path = tmp_path_factory.mktemp("data") / "movielens-100k.parquet"
    pd.DataFrame(
        {
            "rating": np.where(liked.sum(1) > 0, 4, 2),
            "user": user.astype(str),
            "age": 10 + user,
            "gender": np.where(user % 2, "M", "F"),
            "occupation": np.where(user % 3, "student", "writer"),
            "movie": movie.astype(str),
            "genres": [genres[m % 3] for m in movie],
        }
    ).to_parquet(path)
    return path


def test_features_are_rows_of_their_tables(data: Path) -> None:
    ratings, table = read_ratings(data), pd.read_parquet(data)
    assert ratings.user.shape == (2500, 4)
    assert int(ratings.user.max()) < ratings.users
    assert ratings.item[:, 0].unique().numel() == table["movie"].nunique()
    assert ((ratings.item[:, 1:] > 0).sum(1).numpy() == table["genres"].map(len)).all()
    per_column = [set(column.tolist()) for column in ratings.user.T]
    assert len(set.union(*per_column)) == sum(map(len, per_column))  # no row has two meanings
    assert ratings.click.mean() == pytest.approx((table["rating"] >= 4).mean())


def test_what_diverges_alone_is_held(data: Path) -> None:
    ratings = read_ratings(data)
    free, held = (
        train(ratings, TowerTrial("Adagrad", 30.0, rule, 101)) for rule in ("none", "holdfast")
    )
    assert free.diverged_at is not None
    assert free.largest[-1] >= TAU
    assert held.diverged_at is None
    assert max(held.largest) < TAU
    assert held == train(ratings, TowerTrial("Adagrad", 30.0, "holdfast", 101))


def test_the_command_prints_a_table_of_other_seeds(data: Path) -> None:
    before = TABLE.read_bytes()
    done = CliRunner().invoke(main, ["--data", str(data), "--seeds", "101", "--epochs", "1"])
    assert done.exit_code == 0, done.output
    assert "From development seeds (101): not a result yet." in done.stdout
    for optimizer in STEP_SIZES:
        assert f"| {optimizer}, step size |" in done.stdout
    assert "| none | " in done.stdout
    assert "diverged at" in done.stdout
    assert TABLE.read_bytes() == before


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--data", str(tmp_path / "none.parquet")])
    assert done.exit_code == 2
    assert "does not exist: holdfast data fetch movielens-100k" in done.stderr


def test_page_and_picture_are_made_from_the_tables() -> None:
    rows, curves = pd.read_csv(TABLE), pd.read_csv(CURVES)
    assert len(rows) == 3 * len(RULES) * sum(map(len, STEP_SIZES.values()))
    assert "\n".join(page_text(rows)).strip() in (ROOT / PAGE).read_text(encoding="utf-8")
    drawn, kept = svg(chart(rows, curves)), (ROOT / FIGURE).read_bytes()
    assert len(drawn) == pytest.approx(len(kept), rel=0.05)  # fonts differ between machines
