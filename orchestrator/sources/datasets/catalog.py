"""The data sets that `holdfast data fetch` knows."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from orchestrator.sources.datasets import delimited, movielens, open_bandit


@dataclass(frozen=True, slots=True)
class DataSet:
    """A public data set: its source, its layout and its licence."""

    name: str
    convert: Callable[[Path], Iterator[pa.Table]]
    layout: str
    licence: str
    rows: int
    click: str
    package: str | None = None
    folder: str = ""
    sha256: Mapping[str, str] = field(default_factory=dict)


_ALL = (
    DataSet(
        name="movielens-100k",
        convert=movielens.convert_100k,
        layout="the folder or zip with u.data, u.user and u.item, from grouplens.org/datasets",
        licence="GroupLens: research use with acknowledgement; not to be redistributed, "
        "no commercial use without permission (see the data set's README)",
        rows=100_000,
        click="rating >= 4",
        package="recbole==1.2.0",
        folder="recbole/dataset_example/ml-100k",
        sha256={
            "ml-100k.inter": "d4832a77576cb5a480517a9554eef1872331f1ba780ddcd3f4bf956d562ccfc2",
            "ml-100k.user": "94005f99b329506e0c6da740267d2bc41dc7d22425ce2096d9a892e42bd499f0",
            "ml-100k.item": "d464074b022a10862d32e8885d298ad09464733be6effaf4bd26761995afea38",
        },
    ),
    DataSet(
        name="movielens-1m",
        convert=movielens.convert_1m,
        layout="the folder or zip with ratings.dat, users.dat and movies.dat, from "
        "grouplens.org/datasets",
        licence="GroupLens: research use with acknowledgement; not to be redistributed, "
        "no commercial use without permission (see the data set's README)",
        rows=1_000_209,
        click="rating >= 4",
    ),
    DataSet(
        name="open-bandit",
        convert=open_bandit.convert,
        layout="the folder or zip with random/ and bts/, from the Open Bandit project",
        licence="Open Bandit Dataset: Creative Commons Attribution 4.0 (ZOZO, Inc.)",
        rows=60_000,
        click="click >= 1",
        package="obp==0.4.1",
        folder="obp/dataset/obd",
        sha256={
            "bts/all/all.csv": "0ad874e4dbf6902f0845dd478ad8dde5ef6903583d3ffaace78411bdad064106",
            "bts/men/men.csv": "db6d1f7ed2d591ba521533e45286d4c1fba7fe57a8ad2e80342210335f43c527",
            "bts/women/women.csv": "e5d1b49a39b608585a2f3014a3f54970"
            "430cd37a495c1b73fceb85cdf428a5b8",
            "random/all/all.csv": "7168295b6e0a9eabcf3392320a5dd434"
            "e542b68e705d5cd9491499af589812f1",
            "random/men/men.csv": "ede6d08c6877f99cd3770f7d09e26c73"
            "8e6aa6de4445ccccfb1356ba5d06b1eb",
            "random/women/women.csv": "e65f3bd3beb17664fa69cc129bf7bf85"
            "2a775f8ffa630506e505fc905315bb34",
        },
    ),
    DataSet(
        name="criteo",
        convert=delimited.convert_criteo,
        layout="train.txt or train.txt.gz of the Criteo display advertising challenge "
        "(label, 13 integers, 26 categories, tabs)",
        licence="Criteo: research use, non-commercial; see the terms that came with the file",
        rows=45_840_617,
        click="label >= 1",
    ),
    DataSet(
        name="avazu",
        convert=delimited.convert_avazu,
        layout="train.csv or train.csv.gz of the Avazu click-through-rate challenge",
        licence="Avazu: the rules of the challenge; see the terms that came with the file",
        rows=40_428_967,
        click="click >= 1",
    ),
)
DATA_SETS: Mapping[str, DataSet] = {one.name: one for one in _ALL}
