"""The tables of pages that stand on studies: from the folder of made-up results to data files."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.study_tables import main, read_study
from benchmarks.study_tables.cells import digits, signed
from consilium.simulations.study.summaries.questions import questions
from docs.figures import Figure, read
from tests.simulations.study.made_up import MadeUp

POINTS = {"natural": 0.0, "shuffled": 0.03, "matched": 0.0, "iid": 0.02, "skewed": -0.05, "country": -0.03}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MadeUp(axes={"division": POINTS}, parties=4).write(tmp_path_factory.mktemp("study") / "hospitals")


def made(folder: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Figure]:
    monkeypatch.setenv("RECORD_FIGURES", str(out))
    main([str(folder)])
    return {figure.name: figure for figure in map(read, out.glob("*/*.json"))}


def test_cells_are_means_with_half_of_their_intervals(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, view = made(folder, tmp_path, monkeypatch), read_study(folder).view
    assert found.keys() == {f"results/hospitals{end}" for end in ("", "-2", "-divisions", "-methods")}
    mean = view.means[("iid",), "pooled", "auc"]
    expected = f"{digits(mean['mean'])} ± {digits((mean['high'] - mean['low']) / 2)}"
    table = found["results/hospitals"]
    assert table.cell("pooled", "iid") == expected
    assert table.seeds == (0, 1, 2, 3, 4) and table.command.startswith("consilium study hospitals; python -m")
    assert found["results/hospitals-2"].cell("natural", "kappa of teachers").startswith(".")


def test_only_what_is_tested_is_a_difference_and_a_star_is_what_is_significant(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made(folder, tmp_path, monkeypatch)
    asked = [question for question in questions(read_study(folder).view) if question.kind == "divisions"]
    tested = [each for question in asked for each in question.tested]
    table = found["results/hospitals-divisions"]
    cells = [cell for row in table.rows for cell in row[1:]]
    assert len(tested) == sum(cell != "–" for cell in cells) > 5
    assert sum(cell.endswith("*") for cell in cells) == sum(each.significant for each in tested) > 0
    skewed = next(each for each in asked[0].tested if each.at == ("skewed",))
    assert table.cell("clear plurality", "skewed in place of natural").startswith(signed(skewed.difference))
    assert all(question.family in table.note for question in asked)
    assert found["results/hospitals-methods"].columns == ("", *POINTS)


@pytest.mark.parametrize(
    ("value", "text", "with_sign"), [(0.0124, ".012", "+.012"), (-0.0126, "−.013", "−.013"), (-0.0002, ".000", ".000")]
)
def test_digits(value: float, text: str, with_sign: str) -> None:
    assert (digits(value), signed(value)) == (text, with_sign)


def test_a_study_without_a_page(folder: Path, tmp_path: Path) -> None:
    other = MadeUp(parties=2, seeds=[0]).write(tmp_path / "mine")
    with pytest.raises(SystemExit, match="no page has tables of the study mine"):
        main([str(other)])
