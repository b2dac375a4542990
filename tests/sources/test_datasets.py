"""Public data sets, from small files in their layouts."""

import dataclasses
import gzip
import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner, Result

from divergence.errors import InputError
from orchestrator.commands import data, describe
from orchestrator.sources.datasets import catalog, fetch
from orchestrator.sources.datasets.delimited import CRITEO

CONFIGS = Path(__file__).parents[2] / "configs"
MOVIE = "1|Misérables, Les (1995)|01-Jan-1995||http://x|" + "|".join("0" * 8 + "1" + "0" * 10)
UNKNOWN = "267|unknown||||1|" + "|".join("0" * 18)
OFFICIAL_100K = {
    "u.data": "7\t1\t4\t881250960\n8\t267\t3\t881250949\n7\t267\t5\t881250970\n",
    "u.user": "7|24|M|technician|85711\n8|53|F|other|T8H1N\n",
    "u.item": f"{MOVIE}\n{UNKNOWN}\n",
}
RECBOLE = {
    "ml-100k.inter": "user_id:token\titem_id:token\trating:float\ttimestamp:float\r\n"
    "7\t1\t4\t881250960\r\n8\t267\t3\t881250949\r\n7\t267\t5\t881250970\r\n",
    "ml-100k.user": "user_id:token\tage:token\tgender:token\toccupation:token\tzip_code:token\r\n"
    "7\t24\tM\ttechnician\t85711\r\n8\t53\tF\tother\tT8H1N\r\n",
    "ml-100k.item": "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq\r\n"
    "1\tMisérables, Les\t1995\tDrama\r\n267\tunknown\tunkonwn\tunknown\r\n",
}
ONE_M = {
    "ratings.dat": "1::10::5::978300760\n2::20::3::978300700\n",
    "users.dat": "1::F::1::10::48067\n2::M::56::16::70072-1234\n",
    "movies.dat": "10::Misérables, Les (1995)::Drama|Musical\n20::Odd: A Film (1931)::War\n",
}
LOG = "timestamp,item_id,position,click,propensity_score," + ",".join(
    f"user_feature_{n}" for n in range(4)
)
ITEMS = "item_id," + ",".join(f"item_feature_{n}" for n in range(4))
BANDIT = {
    "random/all/all.csv": f",{LOG}\n0,2019-11-24 00:00:34.762830+00:00,1,3,1,0.01,a,b,c,d\n",
    "random/all/item_context.csv": f",{ITEMS}\n0,1,-0.5,x,y,z\n",
    "bts/men/men.csv": f",{LOG}\n0,2019-11-24 00:00:17.004101+00:00,1,2,0,0.08,a,b,c,d\n",
    "bts/men/item_context.csv": f",{ITEMS}\n0,1,0.25,u,v,w\n",
}
AVAZU = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,"
    "app_category,device_id,device_ip,device_model,device_type,device_conn_type,"
    "C14,C15,C16,C17,C18,C19,C20,C21\n"
    "1,0,14102100,1005,0,s,sd,sc,a,ad,ac,d,ip,m,1,2,15706,320,50,1722,0,35,-1,79\n"
    "2,1,14102123,1005,0,s,sd,sc,a,ad,ac,d,ip,m,1,2,15706,320,50,1722,0,35,-1,79\n"
    "broken\n"
)
CRITEO_TEXT = (
    "\t".join(["1", "1", "", "-3", *["5"] * 10, *["68fd1e64"] * 26])
    + "\n"
    + "\t".join(["0", "2", "17", "9", *[""] * 10, *[""] * 26])
    + "\n"
)


def put(folder: Path, files: dict[str, str], encoding: str = "utf-8") -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text.encode(encoding))
    return folder


def convert(name: str, given: Path, out: Path) -> Result:
    arguments = ["fetch", name, "--from", str(given), "--out", str(out)]
    return CliRunner().invoke(data.command, arguments)


def converted(name: str, given: Path, out: Path) -> list[dict[str, Any]]:
    result = convert(name, given, out)
    assert result.exit_code == 0, result.output
    return pq.read_table(out / f"{name}.parquet").to_pylist()


def config_of(name: str, out: Path) -> dict[str, Any]:
    config = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert config["source"]["path"] == f"data/{name}.parquet"
    config["source"]["path"] = str(out / f"{name}.parquet")
    return config


def described(name: str, out: Path, tmp_path: Path, **source: Any) -> dict[str, Any]:
    """The ready-made config on what was converted."""
    config = config_of(name, out)
    config["source"].update(source)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(describe.command, [str(path), "--json"])
    assert result.exit_code == 0, result.exception
    found: dict[str, Any] = yaml.safe_load(result.output)
    return found


def top(found: dict[str, Any], name: str) -> list[str]:
    (feature,) = (f for f in found["features"] if f["name"] == name)
    return [value["value"] for value in feature["top"]]


def test_movielens_100k_official_and_recbole_agree(tmp_path: Path) -> None:
    official = put(tmp_path / "official/ml-100k", OFFICIAL_100K, "latin-1")
    recbole = put(tmp_path / "recbole", RECBOLE)
    rows = converted("movielens-100k", official, tmp_path / "a")
    others = converted("movielens-100k", recbole, tmp_path / "b")
    for row in rows + others:
        row["title"] = row["title"].split(" (")[0]
    assert rows == others
    assert [row["rating"] for row in rows] == [3, 4, 5]
    assert (rows[0]["age"], rows[0]["zip"], rows[0]["year"]) == (53, "T8H1N", None)
    assert (rows[1]["title"], rows[1]["year"]) == ("Misérables, Les", 1995)
    assert rows[1]["genres"] == ["Drama"]
    assert rows[0]["timestamp"].timestamp() == 881250949
    found = described("movielens-100k", tmp_path / "a", tmp_path)
    assert (found["events"], found["clicks"], found["set_aside"]) == (3, 2, {})
    assert top(found, "age") == ["[18,25)", "[50,56)"]
    assert top(found, "zip") == ["85", "T8"]
    assert top(found, "year") == ["[1995,1996)"]
    assert top(found, "genres") == ["unknown", "Drama"]


def test_movielens_1m_from_a_zip(tmp_path: Path) -> None:
    folder = put(tmp_path / "ml-1m", ONE_M, "latin-1")
    archive = tmp_path / "ml-1m.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for path in folder.iterdir():
            packed.write(path, f"ml-1m/{path.name}")
    rows = converted("movielens-1m", archive, tmp_path / "out")
    assert [(r["movie"], r["year"], r["occupation"]) for r in rows] == [
        ("20", 1931, "self-employed"),
        ("10", 1995, "K-12 student"),
    ]
    found = described("movielens-1m", tmp_path / "out", tmp_path)
    assert top(found, "age") == ["<18", ">=56"]
    assert top(found, "genres") == ["Drama", "Musical", "War"]
    assert found["clicks"] == 1


def test_open_bandit(tmp_path: Path) -> None:
    rows = converted("open-bandit", put(tmp_path / "obd", BANDIT), tmp_path / "out")
    assert [(r["item"], r["policy"], r["click"]) for r in rows] == [
        ("men/1", "bts", 0),
        ("all/1", "random", 1),
    ]
    found = described("open-bandit", tmp_path / "out", tmp_path)
    assert (found["events"], found["clicks"]) == (2, 1)
    assert top(found, "item_feature_0") == ["-0.5", "0.25"]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_criteo(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("train.txt.gz" if packed else "train.txt")
    path.write_bytes(gzip.compress(CRITEO_TEXT.encode()) if packed else CRITEO_TEXT.encode())
    rows = converted("criteo", tmp_path if packed else path, tmp_path / "out")
    assert [(r["label"], r["i1"], r["i2"], r["i3"]) for r in rows] == [
        (1, 1, None, -3),
        (0, 2, 17, 9),
    ]
    from_parquet = described("criteo", tmp_path / "out", tmp_path)
    assert top(from_parquet, "i2") == ["[16,32)"]
    assert top(from_parquet, "i3") == ["<0", "[8,16)"]
    assert top(from_parquet, "c26") == ["68fd1e64"]
    dialect = {"delimiter": "\t", "quote": None, "columns": list(CRITEO)}
    direct = described("criteo", tmp_path, tmp_path, path=str(path), format="csv", csv=dialect)
    assert direct["features"] == from_parquet["features"]


@pytest.mark.slow
def test_avazu(tmp_path: Path) -> None:
    path = tmp_path / "train.csv"
    path.write_text(AVAZU)
    rows = converted("avazu", path, tmp_path / "out")
    assert [row["timestamp"].isoformat() for row in rows] == [
        "2014-10-21T00:00:00+00:00",
        "2014-10-21T23:00:00+00:00",
    ]
    found = described("avazu", tmp_path / "out", tmp_path)
    assert len(found["cycles"]) == 24
    assert top(found, "hour_of_day") == ["00", "23"]
    straight = {"path": str(path), "timestamp": {"column": "hour", "format": "%y%m%d%H"}}
    direct = described("avazu", tmp_path, tmp_path, max_broken_share=0.5, **straight)
    assert direct["features"] == found["features"]
    assert direct["set_aside"] == {"wrong number of fields": 1}


def test_what_the_command_says(tmp_path: Path) -> None:
    given = put(tmp_path / "given", RECBOLE)
    out = tmp_path / "out"
    assert convert("movielens-100k", given, out).output == (
        f"{out}/movielens-100k.parquet: 3 events, 66.67% clicks, 1997-12-04 to 1997-12-04\n"
        "note: the complete data set has 100,000 events\n"
        f"licence: {catalog.DATA_SETS['movielens-100k'].licence}\n"
        "next: holdfast describe configs/movielens-100k.yaml\n"
    )
    assert [path.name for path in out.iterdir()] == ["movielens-100k.parquet"]


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("movielens-100k", {"x": ""}, "has neither u.data nor ml-100k.inter"),
        ("movielens-1m", {"x": ""}, "has no ratings.dat"),
        ("movielens-1m", {"ratings.dat": "1::1::5::9\n"}, "users.dat"),
        ("movielens-1m", {**ONE_M, "ratings.dat": "9::10::5::9\n"}, "users.dat has no user 9"),
        ("movielens-1m", {**ONE_M, "ratings.dat": "1::10::five::9\n"}, "'five'"),
        ("movielens-1m", {**ONE_M, "ratings.dat": "1::10\n1::2::3\n"}, "ratings.dat"),
        ("open-bandit", {"x": ""}, "has no random/all/all.csv"),
        ("criteo", {"x": ""}, "has no train.txt or train.txt.gz"),
        ("avazu", {"train.csv": "a,b\n1,2\n"}, "has no column 'click'"),
        ("avazu", {"train.csv": "click,hour\n"}, "the input has no rows"),
    ],
)
def test_a_wrong_layout_is_one_line(
    tmp_path: Path, name: str, files: dict[str, str], message: str
) -> None:
    result = convert(name, put(tmp_path / "given", files), tmp_path / "out")
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "out" / f"{name}.parquet").exists()


def test_what_is_not_there_or_not_ours_to_fetch(tmp_path: Path) -> None:
    gone = convert("movielens-1m", tmp_path / "gone", tmp_path)
    assert str(gone.exception) == f"--from {tmp_path}/gone does not exist"
    (tmp_path / "bad.zip").write_text("not a zip")
    bad = convert("movielens-1m", tmp_path / "bad.zip", tmp_path)
    assert "bad.zip is not a readable archive" in str(bad.exception)
    owners = CliRunner().invoke(data.command, ["fetch", "criteo"])
    assert str(owners.exception) == (
        "criteo cannot be downloaded: get it from its owners and give --from PATH, "
        "train.txt or train.txt.gz of the Criteo display advertising challenge "
        "(label, 13 integers, 26 categories, tabs)"
    )


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip looks in this folder and nowhere else."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def wheel(folder: Path, files: dict[str, str]) -> None:
    about = "recbole-1.2.0.dist-info"
    with zipfile.ZipFile(folder / "recbole-1.2.0-py3-none-any.whl", "w") as packed:
        for name, text in files.items():
            packed.writestr(f"recbole/dataset_example/ml-100k/{name}", text)
        packed.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: recbole\nVersion: 1.2.0\n"
        )
        packed.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        packed.writestr(f"{about}/RECORD", "")


@pytest.mark.slow
def test_fetching_checks_what_pip_brought(
    tmp_path: Path, pip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = catalog.DATA_SETS["movielens-100k"]
    with pytest.raises(InputError) as error:
        fetch.fetch(known, tmp_path / "out", None)
    assert str(error.value) == (
        "pip cannot download recbole==1.2.0: No matching distribution found for recbole==1.2.0; "
        "check the network, or give the wheel or its unpacked folder with --from"
    )
    wheel(pip, RECBOLE)
    with pytest.raises(InputError, match=r"the sha256 of ml-100k.inter must be "):
        fetch.fetch(known, tmp_path / "out", None)
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in RECBOLE.items()}
    known = dataclasses.replace(known, sha256=sums)
    assert fetch.fetch(known, tmp_path / "out", None).rows == 3
    monkeypatch.setattr(fetch, "PIP_LIMIT_S", 0.001)
    with pytest.raises(InputError, match=r"no answer in 0\.001 s"):
        fetch.fetch(known, tmp_path / "out", None)
