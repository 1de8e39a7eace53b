"""docs/models.md: every teacher and student that it shows is built from the code that it shows, and trained."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from consilium.models.keys import OwnTeacher
from consilium.models.table import check_teacher
from consilium.protocol.schema import Schema
from consilium.student.config import StudentSpec
from consilium.student.learn import check_trainer
from tests.docs.pages import Block, blocks
from tests.federation import make_config

PAGE = [block for block in blocks() if block.page.name == "models.md"]
TABLES = [block for block in PAGE if block.language == "toml"]
IMAGES = Schema.of_images(tuple(f"p{index}" for index in range(144)), ("well", "ill"), "none")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch) -> Path:
    """A folder with the page's modules."""
    for block in PAGE:
        first = block.text.splitlines()[0]
        if block.language == "python" and first.startswith("# "):
            (tmp_path / first.removeprefix("# ")).write_text(block.text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def quick(table: dict[str, Any]) -> dict[str, Any]:
    """The same, with fewer epochs."""
    return {**table, "epochs": 2} if "epochs" in table else table


@pytest.mark.parametrize("block", [pytest.param(block, id=block.place) for block in TABLES])
def test_what_the_page_shows_can_be_trained(block: Block, desk: Path) -> None:
    shown = tomllib.loads(block.text)
    if "student" in shown:
        check_trainer(
            StudentSpec.model_validate({"trainer": quick(shown["student"]["trainer"])}).trainer, make_config().rows
        )
        return
    teacher = shown.get("teacher") or shown["simulation"]["own_teacher"]
    spec = TypeAdapter(OwnTeacher).validate_python(quick(teacher))
    check_teacher(spec, IMAGES if teacher.get("images") else make_config().rows)


def test_the_page_shows_every_kind() -> None:
    tables = [tomllib.loads(block.text) for block in TABLES]
    assert {each["teacher"]["model"] for each in tables if "teacher" in each} == {"estimator", "torch"}
    assert {each["student"]["trainer"]["name"] for each in tables if "student" in each} == {"estimator", "torch"}
