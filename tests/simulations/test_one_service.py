"""Whatever is released comes from the one label service: where that gives nothing, nothing is given."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.label_service import LabelService
from consilium.protocol.errors import LedgerError
from consilium.protocol.label_source import Answers, Outcome
from consilium.protocol.noise import SeededNoise
from consilium.simulations.attack.attacks import AttackedRun
from consilium.simulations.divide import make_case
from consilium.simulations.methods.kinds import method_of
from consilium.simulations.papers.measure import released
from consilium.simulations.run import run_scenario
from tests.rooms import ROOMS, ROOT
from tests.simulations.engines.test_engines_agree import quiet
from tests.simulations.methods.cases import SEED, few, taught

MECHANISM = "federation.mechanism={name='gnmax', sigma=8.0}"


def run(folder: Path) -> None:
    changes = (MECHANISM, "simulation.manual_labels=none")
    run_scenario("few", few(*changes), "local", SEED, folder / "run", quiet, device="cpu")


def cell(folder: Path) -> None:
    method_of("pate").predict(make_case(few(MECHANISM), SEED, 0.0), taught(0.0)[1])


def paper(folder: Path) -> None:
    released(GNMax(sigma=1.0), np.array([[9, 1], [2, 8]]), SeededNoise(0))


def attack(folder: Path) -> None:
    AttackedRun(make_case(few(MECHANISM), SEED, 0.0))


@pytest.mark.parametrize("release", [run, cell, paper, attack], ids=lambda each: each.__name__)
def test_each_release_is_an_answer_of_the_one_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: Callable[[Path], None]
) -> None:
    """The control: one that answers without any noise is enough for all of them."""
    asked: list[int] = []

    def refuse(service: LabelService, queries: np.ndarray, *_: Any, **__: Any) -> Answers:
        asked.append(len(queries))
        raise LedgerError("this service gives nothing")

    def answer(service: LabelService, queries: np.ndarray, *_: Any, **__: Any) -> Answers:
        asked.append(len(queries))
        return Answers(np.full(len(queries), Outcome.ANSWERED), np.arange(len(queries)) % 2)

    monkeypatch.setattr(LabelService, "ask", refuse)
    with pytest.raises(LedgerError):
        release(tmp_path)
    assert len(asked) == 1
    if release is not run:  # which reads the ledger afterwards
        monkeypatch.setattr(LabelService, "ask", answer)
        release(tmp_path)
        assert len(asked) > 1


def test_only_the_service_and_the_game_that_audits_it_draw() -> None:
    imports = re.compile(r"^from consilium\.coordinator\.draw import .*\bdraw\b", re.MULTILINE)
    sources = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    drawing = {str(path.relative_to(ROOT)) for path in sources if imports.search(path.read_text(encoding="utf-8"))}
    assert drawing == {"coordinator/label_service.py", "coordinator/distinguish/game.py"}
