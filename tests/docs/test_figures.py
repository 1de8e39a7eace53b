"""Measured tables are those of their data files, these those of their commands, and an edit by hand is seen."""

from __future__ import annotations

import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.exact import SHARED
from benchmarks.held_out import over_thousands
from consilium.coordinator.privacy import promised
from consilium.simulations.scenario import load_scenario
from docs import figures
from docs.figures import Figure, FigureError, Table, figure
from docs.marked import DOCS, names
from docs.pictures import GALLERY, PICTURES, page, svg

NAMES = sorted(f"{path.parent.name}/{path.stem}" for path in DOCS.glob("figures/*/*.json"))
FIGURES = list(figures.read_all().values())
QUICK = {made.command: made.seconds or 0.0 for made in FIGURES if made.quick}
"""Commands that a test runs again, and what they took."""
NIGHTLY_SECONDS = 1.5
"""Those that take longer are run again by `make nightly`."""
PAGE = """# Page

<!-- figure page/table -->
| case | right, % |
|---|---|
| all | **98.6** |
| some | 12 |

<small>`python -m benchmarks.nothing`, version 0.9.0, seeds 0 to 2. Judged on the rest.</small>
<!-- end figure -->

It is <!-- value page/table :: al :: right, % -->98.6<!-- end value --> %.
"""
MADE = Figure(
    name="page/table", command="python -m benchmarks.nothing", version="0.9.0", date="2026-11-23", seeds=(0, 1, 2),
    split="judged on the rest", origin="measured", columns=("case", "right, %"),
    rows=(("all", "**98.6**"), ("some", "12")),
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def kept_curves() -> None:
    """None is: figures are computed anew."""


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of documentation with one page and its one figure."""
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "page.md").write_text(PAGE, encoding="utf-8")
    figures.write(MADE, folder / "figures")
    return folder


def scenario_text(name: str) -> str:
    """The file of a shipped scenario."""
    return (DOCS.parent / "simulations" / "scenarios" / f"{name}.toml").read_text(encoding="utf-8")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_page_is_what_its_data_files_say() -> None:
    assert figures.problems() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=[pytest.mark.proofs] if seconds > NIGHTLY_SECONDS else [])
        for command, seconds in sorted(QUICK.items())
    ],
)
def test_the_quick_ones_give_the_same_again(command: str) -> None:
    if not SHARED.exists():
        pytest.skip("votes and images are not beside the repository (shared/)")
    assert figures.rerun([made for made in FIGURES if made.quick and made.command == command]) == []


def test_quick_ones_are_quick_and_commands_are_modules() -> None:
    assert [made.name for made in FIGURES if made.quick and (made.seconds or 0) >= figures.QUICK_SECONDS] == []
    assert sum(made.seconds or 0 for made in FIGURES if made.quick) < 60, "the slowest should be exempt"
    modules = {module for made in FIGURES for module in re.findall(r"python -m (\S+)", made.command)}
    assert len(modules) > 20 and [module for module in sorted(modules) if find_spec(module) is None] == []


@pytest.mark.parametrize("name", NAMES)
def test_one_changed_digit_is_found(name: str, tmp_path: Path) -> None:
    """In the page and in the data file, of every figure there is."""
    folder, (page, _) = tmp_path / "docs", name.split("/")
    (folder / "figures" / page).mkdir(parents=True)
    data = Path(shutil.copy(DOCS / "figures" / f"{name}.json", folder / "figures" / page))
    made = figures.read(data)
    marked = f"<!-- figure {name} -->\n{made.markdown()}<!-- end figure -->\n"
    (folder / f"{page}.md").write_text(marked, encoding="utf-8")
    assert figures.problems(folder) == []

    row, column = next(
        (row, column) for row in made.rows for column, cell in enumerate(row) if any(sign.isdecimal() for sign in cell)
    )
    digit = next(sign for sign in row[column] if sign.isdecimal())
    wrong = row[column].replace(digit, str((int(digit) + 1) % 10), 1)
    edit(folder / f"{page}.md", f" {row[column]} |", f" {wrong} |")
    assert figures.problems(folder) == [f"{page}.md: stale; run `make figures`"]
    (folder / f"{page}.md").write_text(marked, encoding="utf-8")
    head, rows = data.read_text(encoding="utf-8").split('"rows":')
    cell, other = json.dumps(row[column], ensure_ascii=False), json.dumps(wrong, ensure_ascii=False)
    data.write_text(f'{head}"rows":{rows.replace(cell, other, 1)}', encoding="utf-8")
    assert "edited by hand" in figures.problems(folder)[0]


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        ("page.md", "98.6<!--", "98.7<!--", "page.md: stale"),
        ("page.md", "0 to 2", "0 to 9", "page.md: stale"),
        ("page.md", "figure page/table", "figure page/other", "no file docs/figures/page/other.json"),
        ("page.md", ":: al ::", ":: none ::", "0 rows begin with 'none'"),
        ("page.md", "right, % -->", "left -->", "0 columns are 'left'"),
        ("page.md", "<!-- figure page/table -->", "", "on no page"),
        ("page.md", "# Page", PAGE, "on its page twice"),
        ("page.md", "# Page", "<!-- items F -->\n<!-- end items -->", "there are no items of 'F'"),
        ("page.md", "figure page/table", "figure another/table", "belongs on another page"),
        ("figures/page/table.json", "98.6", "98.7", "edited by hand"),
        ("figures/page/table.json", '"seeds": [0, 1, 2]', '"seeds": [0, 1]', "edited by hand"),
        ("figures/page/table.json", "measured", "transcribed", "edited by hand"),
        ("figures/page/table.json", "0.9.0", "0.9.1", "edited by hand"),
        ("figures/page/table.json", "page/table", "page/other", "move it"),
        ("figures/page/table.json", '"some", "12"', '"some"', "every row needs 2 cells"),
        ("figures/page/table.json", "{", "", "no figure"),
    ],
)
def test_what_does_not_fit_is_named(docs: Path, file: str, old: str, new: str, problem: str) -> None:
    assert figures.problems(docs) == []
    edit(docs / file, old, new)
    assert any(problem in line for line in figures.problems(docs)), figures.problems(docs)


def test_an_excerpt_is_of_the_figure(docs: Path) -> None:
    """Columns under another name, rows in another order; one that is not there is named."""
    mark = "<!-- excerpt page/table :: right, % = right + page/table :: right, % @ some | all -->\n"
    with (docs / "page.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{mark}<!-- end excerpt -->\n")
    assert figures.problems(docs) == ["page.md: stale; run `make figures`"]
    figures.render(docs)
    lines = (docs / "page.md").read_text(encoding="utf-8").split(mark)[1].splitlines()
    assert lines[0].split(" | ")[1:] == ["right", "right, % |"]
    assert lines[2:4] == ["| some | 12 | 12 |", "| all | 98.6 | 98.6 |"]
    assert figures.problems(docs) == []
    edit(docs / "page.md", "right, % @ some", "left @ some")
    assert "0 columns are 'left'" in figures.problems(docs)[0]


def test_a_page_that_does_not_fit_keeps_no_other_from_being_written(docs: Path) -> None:
    edit(docs / "page.md", "98.6<!--", "98.7<!--")
    (docs / "another.md").write_text("<!-- figure another/none -->\n<!-- end figure -->\n", encoding="utf-8")
    assert [path.name for path in figures.render(docs)] == ["page.md"]
    assert (docs / "page.md").read_text(encoding="utf-8") == PAGE
    assert figures.problems(docs) == ["another.md: no file docs/figures/another/none.json, but a mark for it"]


def test_date_seconds_and_load_are_not_the_figures() -> None:
    later = MADE.model_copy(update={"date": "2030-01-01", "seconds": 3.0, "load": (1.0, 1.0, 1.0)})
    assert later.digest == MADE.digest


def test_a_typed_table_is_found(tmp_path: Path) -> None:
    page = tmp_path / "docs" / "scale.md"
    page.parent.mkdir()
    typed = "| votes | s |\n|---|---|\n| clear | 2.1 |\n"
    page.write_text(f"# Scale\n\n```\n{typed}```\n\n{typed}And so on.\n\n{typed}", encoding="utf-8")
    assert figures.problems(page.parent) == ["scale.md: a typed table, | votes | s |"] * 2
    page.rename(page.with_name("another.md"))
    assert figures.problems(page.parent) == [], "other pages may have tables of words"


def record(name: str = "page/table", quick: bool | None = None, value: str = "**98.6**") -> Table:
    with figure(name, MADE.command, MADE.columns, split=MADE.split, seeds=MADE.seeds, quick=quick) as table:
        table.add("all", value)
        table.add("some", 12)
    return table


def test_a_benchmark_prints_and_writes_only_if_asked(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.delenv(figures.RECORD, raising=False)
    monkeypatch.setattr(figures, "DOCS", tmp_path)
    monkeypatch.setattr(figures, "_version", lambda: "1.0.0")
    record()
    assert capsys.readouterr().out.splitlines()[-2:] == ["| all | **98.6** |", "| some | 12 |"]
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(figures.RECORD, str(tmp_path))
    record()
    made = figures.read(tmp_path / "page" / "table.json")
    assert made.rows == MADE.rows and made.quick and made.origin == "measured" and len(made.load) == 3
    record(quick=False)
    assert not figures.read(tmp_path / "page" / "table.json").quick
    monkeypatch.setenv(figures.RECORD, "1")
    record()
    assert figures.read(tmp_path / "figures" / "page" / "table.json").version == "1.0.0", "where the pages have theirs"


def test_cells_of_a_table() -> None:
    table = Table(("a", "b"))
    table.add(12000, None)
    assert table.rows == [("12,000", "–")]
    with pytest.raises(TypeError, match="digits"):
        table.add("a", 0.77)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A command that makes page/table, with what its argument says in one cell and the time in another."""
    (tmp_path / "made_by_me.py").write_text(
        "import sys, time\n"
        "from docs.figures import figure\n"
        "if __name__ == '__main__':\n"
        "    if sys.argv[1] == 'fail':\n"
        "        sys.exit('no votes')\n"
        "    with figure('page/table', f'python -m made_by_me {sys.argv[1]}', ('a', 'b', 's'), split='x',\n"
        "                timings=('s',)) as table:\n"
        "        table.add('first', open(sys.argv[1]).read(), str(time.time()))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "cell").write_text("1.5")
    return f"python -m made_by_me {tmp_path / 'cell'}"


def test_a_rerun_finds_a_cell_that_moved(tmp_path: Path, command: str) -> None:
    before = list(sys.argv)
    (tmp_path / "kept").mkdir()
    figures.run(command, tmp_path / "kept")
    made = figures.read(tmp_path / "kept" / "page" / "table.json")
    assert made.command == command
    assert figures.rerun([made]) == []
    (tmp_path / "cell").write_text("1.6")
    assert figures.rerun([made]) == ["page/table, first, b: 1.5 -> 1.6"]
    assert figures.rerun([made.model_copy(update={"name": "page/other"})]) == ["page/other: not made"]
    assert sys.argv == before


def test_a_command_that_fails_says_so(tmp_path: Path, command: str) -> None:
    with pytest.raises(FigureError, match="failed: no votes"):
        figures.run(f"{command.rsplit(' ', 1)[0]} fail", tmp_path)
    with pytest.raises(FigureError, match="only `python -m"):
        figures.run("rm -r figures", tmp_path)


REPEATED = {
    "results/default-scenario :: as shipped": {"promised", "student", "mean teacher", "pooled"},
    "results/label-promises :: stroke-labels": {"towards the student", "as a whole histogram"},
    "results/mnist-250-held-out :: all": {"student, %"},
    "results/natural-divisions :: 40 parties or more, mean": {"PATE", "gradient descent"},
    "results/natural-divisions-open :: 40 parties or more, mean": {"local", "pooled"},
    "results/default-runs :: all": {
        "as many labels by hand",
        "noisy average of weights",
        "private gradient descent",
        "worth in labels by hand",
    },
    "results/default-scenario :: hospitals with 20": {"mean teacher"},
    "papers/pate-2017 :: MNIST, 100 queries": {"student, %"},
    "results/pate-g :: published, 100 (98 right) | 300": {"last 2,000 (the script's)"},
    "results/tuned-headline :: student": {"on hospitals that are not development hospitals"},
}
"""What README.md repeats of a table; between marks, so that it is stale with the table."""


def test_readme_repeats_tables_between_marks_alone() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    marked: dict[str, set[str]] = {}
    for address in names(text, figures.VALUES):
        row, _, column = address.rpartition(" :: ")
        marked.setdefault(row, set()).add(column)
    assert marked == REPEATED
    prose, tables = figures.VALUES.sub("", text), figures.read_all()
    cells = [
        tables[row.split(" :: ")[0]].cell(row.split(" :: ")[1], each) for row, of in REPEATED.items() for each in of
    ]
    assert [cell for cell in cells if re.search(rf"(?<![\d.]){re.escape(cell)}(?!\d)", prose)] == [], "typed, too"


def test_readme_repeats_the_promise_of_mnist() -> None:
    """The MNIST scenario's promise, computed."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    promise = promised(load_scenario("mnist-250").federation).epsilon
    row = next(line for line in text.splitlines() if line.startswith("| MNIST over 250 parties"))
    assert f" | {promise:.3f} | " in row
    assert f"where {promise:.3f} is the worst case" in text


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_drawn_from_their_tables(name: str) -> None:
    assert (GALLERY / f"{name}.svg").read_text(encoding="utf-8") == svg(name)


def test_the_gallery_shows_each_picture_with_its_code() -> None:
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == page()
    assert len(PICTURES) >= 10
    assert {path.stem for path in GALLERY.iterdir()} == set(PICTURES)


def test_the_interval_of_mnist_is_over_the_thousands() -> None:
    rows = figures.read_all()["results/mnist-250-held-out"].rows
    thousands = [float(row[1].split(" ")[0]) / 100 for row in rows if row[0].isdecimal()]
    assert (len(thousands), rows[-1][1].strip("*")) == (10, over_thousands(thousands))


@pytest.mark.parametrize("name", ["stroke", "adult-250", "diabetes-rf", "pneumonia"])
def test_the_head_of_a_scenario_repeats_its_table(name: str) -> None:
    """`# Measured ...: student's AUC 0.770 ± 0.016 ... Worth 264 labels by hand (median; 48 to 674)`."""
    table, row = ("results/default-runs", "all") if name == "stroke" else ("results/worth", name)
    made, head = figures.read_all()[table], scenario_text(name).split('description = """')[0]
    auc = re.sub(r"(?<!\d)\.", "0.", made.cell(row, "student"))
    labels, low, high = re.findall(r"[\d,]+", made.cell(row, "worth in labels by hand"))
    head = " ".join(head.replace("\n#", "").split())
    assert f"student's AUC {auc}, " in head
    assert f"Worth {labels} labels by hand (median; {low} to {high})" in head


def test_the_head_of_mnist_repeats_its_interval() -> None:
    mean, low, high = re.findall(r"[\d.]+", figures.read_all()["results/mnist-250-held-out"].cell("all", "student, %"))
    head = " ".join(scenario_text("mnist-250").split('description = """')[0].replace("\n#", "").split())
    assert f"student {mean} %, Student's 95 % interval over the ten {low} to {high} " in head
