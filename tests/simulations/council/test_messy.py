"""A messy frame and `Council`: all faults at once, in words that it knows, and what reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from consilium import Council
from consilium.protocol.errors import TRACEBACK, DataError
from consilium.simulations.council.frames import BadInput, BadSetting
from consilium.simulations.data_check import check_files
from tests.data.messy import plant, write
from tests.simulations.council.warm import QUICK
from tests.simulations.test_data_check import whole


def messy(folder: Path) -> pl.DataFrame:
    return pl.read_csv(write(folder, whole(plant(0))), infer_schema=False)


def refusal(frame: pl.DataFrame, seed: int, **changes: Any) -> BadInput:
    with pytest.raises(BadInput) as caught:
        Council(**{**QUICK, "random_state": seed, **changes}).fit(frame, "ill", owners="hospital")
    return caught.value


def test_all_faults_come_at_once(tmp_path: Path) -> None:
    """The same words whichever rows are public, and keys that `Council` has."""
    frame = messy(tmp_path)
    spelled = {"ill": {"values": {"YES": "yes", "NO": "no"}}}
    texts = {str(refusal(frame, seed, cells=spelled)) for seed in range(4)}
    (text,) = texts
    for part in (
        "4 faults",
        "column 'age' has",
        "column 'bmi' has",
        "column 'dose' has",
        "column 'admitted' is",
        "give Council these:\nmissing=['-'",
        "\ncells=",
    ):
        assert part in text
    assert "data." not in text
    assert set(Council().get_params()) >= {"missing", "cells", "columns", "classes"}


@pytest.mark.usefixtures("quick")
def test_the_keys_that_the_check_writes_are_parameters(tmp_path: Path) -> None:
    """And later rows are as messy."""
    path = write(tmp_path, whole(plant(0)))
    found = check_files(str(path), {"label": "ill", "owner": "hospital"}).data
    keys = {key: found[key] for key in ("missing", "cells", "columns", "classes") if key in found}
    frame = messy(tmp_path).drop(found.get("drop", []))
    labelled = frame.filter(pl.col("ill").is_not_null() & ~pl.col("ill").is_in(["", *found["missing"]]))
    council = Council(**QUICK, **keys).fit(labelled, "ill", owners="hospital")
    assert council.classes_.tolist() == ["no", "yes"] and council.n_owners_ == 8
    rows = frame.with_columns(dose=pl.lit("12 mg"), age=pl.lit("NA")).head(1)
    plain = frame.with_columns(dose=pl.lit("12"), age=pl.lit(None, pl.String)).head(1)
    dose = {**keys["cells"], "dose": {"codes": {"12 mg": 12.0}, "other": "number"}}
    assert (council.set_params(cells=dose).predict_proba(rows) == council.predict_proba(plain)).all()


def test_cells_are_of_named_columns() -> None:
    with pytest.raises(BadSetting, match=r"missing and cells are for columns with names.*Give a frame"):
        Council(**QUICK, missing=["NA"]).fit([["1", "2"]] * 20, [0, 1] * 10, owners=[0, 1, 2, 3] * 5)


def shown(statement: str) -> str:
    """What IPython prints of an error."""
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell()
    with capture_output() as output:
        shell.run_cell(statement)
    return output.stdout + output.stderr


def test_a_notebook_shows_the_message_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = "from consilium.protocol.errors import DataError\ndef f(): raise DataError('no', 'Do it')\nf()"
    monkeypatch.delenv(TRACEBACK, raising=False)
    assert shown(cell).strip() == "DataError: no. Do it"
    monkeypatch.setenv(TRACEBACK, "1")
    assert "Traceback" in shown(cell) or "def f()" in shown(cell)
    assert not hasattr(DataError("no"), "_render_traceback_")
