"""A report and its data on disk: written whole or not at all, read back as they were."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from consilium.protocol.errors import DataError, PathError, StorageError
from consilium.simulations.report.build import render, write_report
from consilium.simulations.report.data import load_report_data, save_report_data
from tests.simulations.report import cases as made
from tests.simulations.report.cases import figured, run


def test_figures_come_back_from_the_disk_as_they_were(tmp_path: Path) -> None:
    data = figured(run(), made.DIGITS)
    save_report_data(data, tmp_path)
    for public in (False, True):
        assert render(load_report_data(tmp_path), public) == render(data, public)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("open_figures", "test", ["well"]),
        ("open_figures", "student", {"confusion": [[1]], "roc": [{}]}),
        ("open_figures", "intervals", {"auc": [0.5], "accuracy": [0.5]}),
        ("open_figures", "by_labels", {"metric": "auc", "points": [{"labels": 0, "value": 1, "interval": []}] * 2}),
        ("secret_figures", "at_home", {"metric": "auc"}),
    ],
)
def test_figures_that_no_run_has_are_an_error_or_left_out(part: str, name: str, value: object) -> None:
    data = figured(run())
    broken = replace(data, **{part: {**getattr(data, part), name: value}})
    try:
        assert "</html>" in render(broken)
    except DataError as error:
        assert "audit" in str(error)


class TestWriting:
    def test_writes_what_render_gives(self, tmp_path: Path) -> None:
        data = run()
        for public in (False, True):
            write_report(data, tmp_path / "report.html", public=public)
            assert (tmp_path / "report.html").read_text(encoding="utf-8") == render(data, public)
        assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

    def test_a_failure_leaves_the_old_file_and_nothing_else(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "report.html"
        path.write_text("old", encoding="utf-8")

        def full(_: int) -> None:
            assert path.read_text(encoding="utf-8") == "old"
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            write_report(run(), path)
        assert path.read_text(encoding="utf-8") == "old"
        assert [file.name for file in tmp_path.iterdir()] == ["report.html"]

    def test_a_missing_folder_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(PathError, match=r"cannot write .*gone"):
            write_report(run(), tmp_path / "gone" / "report.html")
