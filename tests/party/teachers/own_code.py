"""Teachers that strangers wrote, rows to train them on, and a home that asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from consilium.data.private_rows import Rows
from consilium.models.keys import EstimatorSpec
from consilium.models.table import fit_teachers
from consilium.protocol.config_files import load
from tests.federation import HomeFile as PartyFile
from tests.party.test_node import CONFIG, make_rows

SCHEMA = CONFIG.rows
PARTS = [np.arange(0, 150), np.arange(150, 300)]


def stranger(name: str, **parameters: Any) -> EstimatorSpec:
    return EstimatorSpec(factory=f"tests.strangers:{name}", parameters=parameters)


def rows_of(count: int = 300, seed: int = 6) -> Rows:
    x, y = make_rows(count, seed)
    return Rows(SCHEMA.inputs(x), y)


def own_teachers(spec: Any, rows: Rows) -> list[Any]:
    return fit_teachers(spec, rows, PARTS, [1, 2], 2)


def with_teacher(folder: Path, teacher: dict[str, Any], **more: Any) -> None:
    settings = load(folder / "party.toml", PartyFile).model_dump(mode="json", exclude_none=True)
    (folder / "party.toml").write_text(tomli_w.dumps({**settings, **more, "teacher": teacher}))
