"""MovieLens 100K and 1M: the official layouts, and RecBole's of 100K.

One row a rating: timestamp, rating, user, age, gender, occupation, zip, movie, title, year and
genres. 1M codes age by group (1 is under 18) and occupation by number: the names are from its
README.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from divergence.errors import InputError
from orchestrator.sources.datasets.tables import in_time_order, matching, read_table, years

GENRES = [
    "unknown",
    "Action",
    "Adventure",
    "Animation",
    "Children's",
    "Comedy",
    "Crime",
    "Documentary",
    "Drama",
    "Fantasy",
    "Film-Noir",
    "Horror",
    "Musical",
    "Mystery",
    "Romance",
    "Sci-Fi",
    "Thriller",
    "War",
    "Western",
]
OCCUPATIONS = [
    "other",
    "educator",
    "artist",
    "administrative",
    "student",
    "customer service",
    "doctor",
    "executive",
    "farmer",
    "homemaker",
    "K-12 student",
    "lawyer",
    "programmer",
    "retired",
    "sales",
    "scientist",
    "self-employed",
    "technician",
    "craftsman",
    "unemployed",
    "writer",
]
RATINGS = ("user", "movie", "rating", "timestamp")
USERS = ("user", "age", "gender", "occupation", "zip")


def convert_100k(folder: Path) -> Iterator[pa.Table]:
    """From u.data, u.user and u.item, or ml-100k.inter, .user and .item."""
    if inter := find(folder, "ml-100k.inter"):
        yield _recbole(inter.parent)
    elif ratings := find(folder, "u.data"):
        yield _official_100k(ratings.parent)
    else:
        raise InputError(f"{folder} has neither u.data nor ml-100k.inter")


def convert_1m(folder: Path) -> Iterator[pa.Table]:
    """From ratings.dat, users.dat and movies.dat."""
    ratings = find(folder, "ratings.dat")
    if ratings is None:
        raise InputError(f"{folder} has no ratings.dat")
    rated = read_table(ratings, RATINGS, "::", "latin-1")
    users = read_table(
        ratings.with_name("users.dat"), ("user", "gender", "age", "occupation", "zip"), "::"
    )
    movies = read_table(
        ratings.with_name("movies.dat"), ("movie", "title", "genres"), "::", "latin-1"
    )
    codes = users.column("occupation").cast(pa.int8())
    users = _set(users, "occupation", pa.array(OCCUPATIONS).take(codes.combine_chunks()))
    movies = movies.append_column(
        "year", pc.struct_field(pc.extract_regex(movies["title"], r"\((?P<year>\d{4})\)$"), "year")
    )
    movies = _set(movies, "genres", pc.split_pattern(movies["genres"], "|"))
    yield _joined(ratings.parent, rated, users, movies, ("users.dat", "movies.dat"))


def find(folder: Path, name: str) -> Path | None:
    """The file of this name, in this folder or below."""
    return next(iter(sorted(folder.rglob(name))), None)


def _official_100k(folder: Path) -> pa.Table:
    ratings = read_table(folder / "u.data", RATINGS, "\t")
    users = read_table(folder / "u.user", USERS, "|")
    fields = ("movie", "title", "released", "video", "url", *GENRES)
    movies = read_table(folder / "u.item", fields, "|", "latin-1")
    flags = zip(*(movies.column(genre).to_pylist() for genre in GENRES), strict=True)
    genres = [[g for g, flag in zip(GENRES, row, strict=True) if flag == "1"] for row in flags]
    year = pc.utf8_slice_codeunits(movies.column("released"), -4)
    movies = movies.select(["movie", "title"]).append_column("year", year)
    movies = movies.append_column("genres", pa.array(genres, pa.list_(pa.string())))
    return _joined(folder, ratings, users, movies, ("u.user", "u.item"))


def _recbole(folder: Path) -> pa.Table:
    def read(suffix: str, rename: Callable[[str], str]) -> pa.Table:
        table = read_table(folder / f"ml-100k.{suffix}", None, "\t")
        return table.rename_columns([rename(n.split(":")[0]) for n in table.column_names])

    names = {"user_id": "user", "item_id": "movie", "zip_code": "zip", "movie_title": "title",
             "release_year": "year", "class": "genres"}  # fmt: skip
    ratings, users, movies = (read(s, lambda n: names.get(n, n)) for s in ("inter", "user", "item"))
    movies = _set(movies, "genres", pc.split_pattern(movies["genres"], " "))
    return _joined(folder, ratings, users, movies, ("ml-100k.user", "ml-100k.item"))


def _joined(
    folder: Path, ratings: pa.Table, users: pa.Table, movies: pa.Table, files: tuple[str, str]
) -> pa.Table:
    user = matching(ratings, users, "user", folder / files[0])
    movie = matching(ratings, movies, "movie", folder / files[1])
    seconds = ratings.column("timestamp").cast(pa.int64())
    columns = {
        "timestamp": seconds.cast(pa.timestamp("s", "UTC")),
        "rating": ratings.column("rating").cast(pa.int8()),
        "user": ratings.column("user"),
        "age": user.column("age").cast(pa.int16()),
        **{name: user.column(name) for name in ("gender", "occupation", "zip")},
        **{name: movie.column(name) for name in ("movie", "title", "genres")},
        "year": years(movie.column("year")),
    }
    return in_time_order(pa.table(columns))


def _set(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, values)
