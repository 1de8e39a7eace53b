"""The page of a study: every section from made-up results, downloads that hold what is shown, gaps left out."""

from __future__ import annotations

import io
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote_to_bytes
from xml.etree import ElementTree

import polars as pl
import pytest

from consilium.protocol.errors import DataError, PathError
from consilium.simulations.study.page import write_study_report
from tests.simulations.study.made_up import METHODS, ONE, MadeUp

HOSTILE = "<script>alert(1)</script>\"'&"
SETS = {name: index * 0.01 for index, name in enumerate("abcdef")}
STUDIES = {
    "numbers": MadeUp(
        axes={"data.alpha": {"0.1": -0.1, "1": 0, "10": 0.1}, "data.parties": {"9": 0, "20": 0.1}}, parties=9
    ),
    "sets": MadeUp(axes={"set": SETS, "epsilon": {"1": 0, "3": 0}}, seeds=[0, 1], parties=6, sets="set"),
    "no axis": MadeUp(axes={}, seeds=[0], parties=3, classes=[f"class {index}" for index in range(10)]),
    "one method": MadeUp(axes={}, seeds=[0, 1], methods={"pooled": 0.8}, parties=3),
    "hostile": MadeUp(
        axes={HOSTILE: {HOSTILE: 0.0, "b": 0.1}}, methods={HOSTILE: 0.7, "local": 0.6, "pate": 0.7},
        classes=[HOSTILE, "b"], title=HOSTILE, parties=3, seeds=[0, 1],
    ),
}  # fmt: skip
PARTS = ["answers", "methods", "parties", "privacy", "made"]


def drawn(study: MadeUp, folder: Path) -> str:
    write_study_report(study.write(folder / "study"), folder / "study.html")
    return (folder / "study.html").read_text(encoding="utf-8")


def downloads(page: str, ending: str) -> dict[str, bytes]:
    found = re.findall(rf'download="([^"]+)\.{ending}" href="data:[^,]+,([^"]+)"', page)
    assert len(dict(found)) == len(found)  # no two have the same name
    return {name: unquote_to_bytes(unescape(content)) for name, content in found}


def body(page: str) -> ElementTree.Element:
    """Of the page, which is well formed but for its head."""
    return ElementTree.fromstring(page[page.index("<main>") : page.index("</main>") + len("</main>")])


def lines_of(page: str, name: str) -> list[ElementTree.Element]:
    """Of the table of this exhibit."""
    (table,) = [each for part in body(page).iter() if part.get("id") == name for each in part.iter("table")]
    return list(table.iter("tr"))[1:]


def cells_of(page: str, name: str) -> list[list[str]]:
    return [["".join(cell.itertext()) for cell in line.iter("td")] for line in lines_of(page, name)]


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_drawn_and_markup_in_names_stays_text(name: str, tmp_path: Path) -> None:
    page = drawn(STUDIES[name], tmp_path)
    parts = [part.get("id", "").removeprefix("part-") for part in body(page).iter("section") if part.get("id")]
    assert parts == [part for part in PARTS if name != "one method" or part != "privacy"]
    assert ("along alpha" in page) == (name == "numbers")
    assert "not for publication unless the data are" in page
    assert not re.search(r">\s*(nan|None|inf)\b", page)
    assert "<script" not in page and ("alert(1)" in page) == (name == "hostile")
    assert not any(b"<script" in content for content in downloads(page, "svg").values())


def test_it_begins_with_what_was_found_and_tells_what_failed_and_what_is_absent(tmp_path: Path) -> None:
    failed = {"method": "", "place": "division = iid, seed 1", "why": "2 parties, and 3 are needed. Add one"}
    absent = [{"method": "noisy_average", "why": "teachers are not linear"}] * 2
    study = MadeUp(parties=9, failed=[failed], absent=absent)
    answers = write_study_report(study.write(tmp_path / "study"), tmp_path / "study.html")
    text = (tmp_path / "study.html").read_text(encoding="utf-8")
    first = next(part for part in body(text).iter("section") if part.get("id"))
    assert first.get("id") == "part-answers" and 1 <= len(answers) <= 5
    assert ["".join(item.itertext()).strip() for item in first.iter("li")][: len(answers)] == answers
    assert answers[0].startswith("The largest change: country in place of")
    for told in (
        "1 cell could not be computed", "6 methods over division (4 values), with 5 seeds each.<", "Nobody’s.",
        "division = iid, seed 1: 2 parties, and 3 are needed. Add one",
        "noisy average in 2 cells: teachers are not linear",
    ):  # fmt: skip
        assert told in text


def test_the_table_says_what_is_not_significant_and_what_is_not_tested(tmp_path: Path) -> None:
    """What was tested is first; what is grey says why."""
    methods = {"local": 0.6, "pate": 0.7, "noisy_average": 0.7, "fedavg": 0.5}
    study = MadeUp(methods=methods, parties=3, stated={name: ONE for name in methods if name != "local"})
    page = drawn(study, tmp_path)
    lines = [line[0] for line in cells_of(page, "differences")]  # FedAvg, noisy average, local
    assert not any("not" in line for line in lines[:4])
    assert sum("not significant" in line for line in lines[4:8]) >= 3
    assert all("not tested: the guarantees differ" in line for line in lines[8:]) and len(lines) == 12
    faint = ["faint" in next(line.iter("td")).get("class", "") for line in lines_of(page, "differences")]
    assert faint == ["not " in line for line in lines]
    shown = pl.read_csv(downloads(page, "csv")["differences"])
    assert set(shown["family"]) == {"methods of the same guarantee against student (8 comparisons)"}
    gaps = shown.filter(pl.col("method") == "local")
    assert set(gaps["standing"]) == {"not like with like"} and gaps["p_holm"].null_count() == gaps.height == 4


def test_the_page_says_what_each_method_guarantees(tmp_path: Path) -> None:
    methods = {"local": 0.6, "pate": 0.7, "fedavg": 0.65}
    stated = {"pate": (1.0, 1e-5, "record", "add_or_remove"), "fedavg": ONE}
    page = drawn(MadeUp(axes={}, methods=methods, stated=stated, parties=3), tmp_path)
    fedavg, pate = "epsilon 1.000 delta 1e-5, a party, replace", "epsilon 1.000 delta 1e-5, a record, add or remove"
    assert [line[0] for line in cells_of(page, "privacy")] == [fedavg, pate]


def test_contrasts_along_an_axis_are_a_table(tmp_path: Path) -> None:
    """For every method, the largest first, with interval, p and family."""
    axes = {"division": {"natural": 0.0, "iid": 0.1, "country": -0.1}, "mechanism": {"gnmax": 0.0, "histogram": 0.01}}
    page = drawn(MadeUp(axes=axes, parties=3), tmp_path)
    lines = cells_of(page, "changes")
    assert all(re.search(r"\d to ", line[0]) for line in lines)
    sizes = [abs(float(line[0].split()[0].replace("−", "-"))) for line in lines]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 0.08
    shown = pl.read_csv(downloads(page, "csv")["changes"])
    assert set(shown["against"]) == {"natural", "gnmax"} and set(shown["method"]) == set(METHODS)
    assert "other points of “division” in place of natural, student (4 comparisons)" in set(shown["family"])


def test_long_tables_are_cut_on_the_page_and_whole_and_unrounded_in_the_download(tmp_path: Path) -> None:
    points = {f"{index}": 0.0 for index in range(130)}
    study = MadeUp(axes={"sigma": points}, seeds=[0], methods={"local": 0.6, "pate": 0.7}, parties=1)
    page, frame = drawn(study, tmp_path), study.frame()
    assert len(lines_of(page, "methods")) == 120
    assert "The first 120 of 130 lines" in " ".join(page.split())
    found = pl.read_csv(io.BytesIO(downloads(page, "csv")["methods"])).filter(metric="auc")
    mine = frame.filter(metric="auc").select(pl.col("sigma").cast(pl.Int64), "method", "value")
    both = found.join(mine, on=["sigma", "method"])
    assert both.height == 2 * 130 and both["mean"].to_list() == pytest.approx(both["value"].to_list(), abs=1e-12)


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("results.parquet", None, PathError),
        ("results.parquet", b"PAR1 of nothing", DataError),
        ("study.json", b"{", DataError),
    ],
)
def test_a_damaged_folder_is_one_line(name: str, content: bytes | None, error: type[Exception], tmp_path: Path) -> None:
    folder = MadeUp(axes={}, seeds=[0], parties=3).write(tmp_path / "study")
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(error, match="study"):
        write_study_report(folder, tmp_path / "study.html")
    assert not (tmp_path / "study.html").exists()
