from pathlib import Path

import pytest

from divergence.errors import InputError
from orchestrator.ab.counts import Counts, Day, Trial, trials_table
from orchestrator.ab.counts_file import read_counts

CSV = """day,arm,views,clicks,cost
1,old,1000,20,10.5
1,new,1100,25,12
2,new,900,18,9
2,old,1000,19,9.25
"""


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "counts.csv"
    path.write_text(CSV)
    return path


def test_anybodys_counts_are_read(csv: Path) -> None:
    [trial] = read_counts(str(csv))
    first = Day(1, Counts(1000, 20, 10.5), Counts(1100, 25, 12.0))
    second = Day(2, Counts(1000, 19, 9.25), Counts(900, 18, 9.0))
    assert trial == Trial("all", "old", "new", (first, second))
    assert trial.totals == (Counts(2000, 39, 19.75), Counts(2000, 43, 21.0))
    assert trial.totals[0].cpm == pytest.approx(9.875)


def test_the_control_can_be_chosen(csv: Path) -> None:
    [trial] = read_counts(str(csv), control="new")
    assert (trial.control, trial.treatment) == ("new", "old")
    assert read_counts(str(csv), treatment="old") == [trial]


def test_trials_survive_the_way_through_a_csv(csv: Path) -> None:
    [one] = read_counts(str(csv))
    trials = [Trial(name, "old", "new", one.days) for name in ("seed 1", "seed 2")]
    trials_table(trials).to_csv(csv, index=False)
    assert read_counts(str(csv)) == trials


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("1,old,1000,20,10.5", "1,old,1000,2000,10.5", "row 1: clicks must be at most views"),
        (
            "2,new,900,18,9",
            "2,new,900,-1,9",
            "row 3: clicks must be an integer >= 0, but is -1",
        ),
        ("2,new,900,18,9", "2,new,900,1.5,9", "row 3: clicks must be an integer"),
        ("12\n", "much\n", "row 2: cost must be a number >= 0, but is much"),
        ("2,new,900,18,9", "2,new,900,0,9", "row 3: cost must be 0 if there are no clicks"),
        ("2,new,900,18,9", "1,new,900,18,9", "row 3: each day of an arm must appear only once"),
        ("2,new,900,18,9\n", "", "day 2 must have both arms, but has only old"),
        ("2,new", "2,newer", "must have two arms"),
        ("day,arm", "date,arm", "needs the columns day, arm, views, clicks, cost; missing: day"),
    ],
)
def test_what_is_wrong_is_told_with_its_row(csv: Path, old: str, new: str, told: str) -> None:
    csv.write_text(CSV.replace(old, new))
    with pytest.raises(InputError, match=told) as error:
        read_counts(str(csv))
    assert str(error.value).startswith(str(csv))


def test_all_mistakes_of_a_file_are_listed(csv: Path) -> None:
    csv.write_text(
        "day,arm,views,clicks,cost\n"
        "1,old,1000,2000,10.5\n"
        "one,new,-5,,12\n"
        "2,old,1000,0,much\n"
        "2,,900,0,9\n"
    )
    with pytest.raises(InputError) as error:
        read_counts(str(csv))
    lines = str(error.value).splitlines()
    assert [line.removeprefix(f"{csv}: ") for line in lines] == [
        "row 1: clicks must be at most views",
        "row 2: day must be an integer >= 0, but is one",
        "row 2: views must be an integer >= 0, but is -5",
        "row 2: clicks must be an integer >= 0, but is empty",
        "row 3: cost must be a number >= 0, but is much",
        "row 4: arm must be given",
        "row 4: cost must be 0 if there are no clicks",
    ]


def test_days_without_an_arm_and_unknown_arms_are_all_listed(csv: Path) -> None:
    csv.write_text(CSV + "3,old,9,8,7\n4,new,9,8,7\n")
    with pytest.raises(InputError) as error:
        read_counts(str(csv))
    only = [line.split(": ", 2)[2] for line in str(error.value).splitlines()]
    assert only == [
        "day 3 must have both arms, but has only old",
        "day 4 must have both arms, but has only new",
    ]
    with pytest.raises(InputError, match=r"--control x: .*\n--treatment y: "):
        read_counts(str(csv), control="x", treatment="y")
    csv.write_text("day,arm,views,clicks,cost\n" + "1,old,x,1,1\n" * 80)
    with pytest.raises(InputError, match="110 more mistakes"):  # 80 + 79 days + one arm
        read_counts(str(csv))
    csv.write_text("day,arm,views,clicks,cost\n1,old,2,1,1,5\n")
    with pytest.raises(InputError, match="more fields than its header"):
        read_counts(str(csv))


def test_unknown_arms_and_files_are_told(csv: Path) -> None:
    with pytest.raises(InputError, match=r"--control x: .* has the arms old, new"):
        read_counts(str(csv), control="x")
    with pytest.raises(InputError, match="must be different arms"):
        read_counts(str(csv), control="old", treatment="old")
    with pytest.raises(InputError, match="cannot be read"):
        read_counts(str(csv.with_name("nope.csv")))
    csv.write_text("")
    with pytest.raises(InputError, match="not a csv file"):
        read_counts(str(csv))
