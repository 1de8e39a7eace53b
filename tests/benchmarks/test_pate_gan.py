"""The benchmark of PATE-G: which images were labelled in 2017, and that a measurement goes on where it was stopped."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import pate_gan
from benchmarks.exact import SHARED, load
from benchmarks.papers import Kept
from benchmarks.pate_gan import POOL, Task, drawn_in_2017, measure, mnist_test, rows
from consilium.models.images import feature_matching
from consilium.models.images import feature_matching as improved_gan
from tests.benchmarks.test_papers_page import eight_moments
from tests.models.published.models import bars


def test_the_published_indices_are_drawn_by_lot_from_the_first_8000() -> None:
    if not (SHARED / "data" / "mnist").exists():
        pytest.skip("MNIST is not beside the repository (shared/)")
    _, truth = mnist_test()
    votes = load("mnist")
    assert votes is not None
    published = np.load(SHARED / "data" / "pate2017_mnist_student.npz")
    hundred, thousand = (drawn_in_2017(truth[:POOL], count) for count in (100, 1000))
    assert (hundred == published["indices100"]).all()
    found = {
        "classes": np.bincount(truth[hundred], minlength=10).tolist(),  # meant to be ten of each
        "right of 100": int((published["labels_lap20"][hundred] == truth[hundred]).sum()),
        "rows of 1,000": len(np.unique(thousand)),
        "right of 1,000": int((published["labels_lap20"][thousand] == truth[thousand]).sum()),
        "epsilons": [f"{eight_moments(votes[rows]):.2f}" for rows in (hundred, thousand)],
    }
    assert found == {
        "classes": [13, 13, 13, 10, 15, 7, 8, 4, 8, 9],
        "right of 100": 98,
        "rows of 1,000": 1000,
        "right of 1,000": 929,
        "epsilons": ["1.96", "7.10"],
    }


def test_it_goes_on_where_it_was_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys) -> None:
    """Also to more epochs; what was measured is not measured again, and the table has every number of epochs."""
    monkeypatch.setattr(feature_matching, "HIDDEN", (16, 8))
    x, y = bars(400, 8)
    given = Task(x[:300], y[:300], np.arange(20), y[:20], {"last 1,000": (x[300:], y[300:])})
    monkeypatch.setattr(pate_gan, "task", lambda *_: given)
    asked = Namespace(epochs=[4], look=3, bfloat16=False)
    path, steps = tmp_path / "found.jsonl", []

    def stopped(training: improved_gan.ImprovedGanTraining, count: int) -> None:
        steps.append(count)
        if len(steps) == 2:
            raise KeyboardInterrupt
        advance(training, count)

    advance = improved_gan.ImprovedGanTraining.advance
    monkeypatch.setattr(improved_gan.ImprovedGanTraining, "advance", stopped)
    with pytest.raises(KeyboardInterrupt):
        measure("own", 100, 0, asked, Kept(path))
    for epochs in ([4], [4], [4, 6], [5]):
        measure("own", 100, 0, Namespace(epochs=epochs, look=3, bfloat16=False), Kept(path))
    assert steps == [9, 3, 3, 6]  # three rows an epoch; the second was stopped, the fourth is up to six epochs
    found = Kept(path).found
    assert [(item.get("step"), item.get("epochs")) for item in found] == [
        (9, None),
        (12, None),
        (None, 4),
        (18, None),
        (None, 6),
    ]
    straight = Kept(tmp_path / "straight.jsonl")
    measure("own", 100, 0, Namespace(epochs=[6], look=6, bfloat16=False), straight)
    assert [{**each[-1], "processor_seconds": 0} for each in (straight.found, found)] == [
        {**found[-1], "processor_seconds": 0}
    ] * 2
    assert "6 epochs already, not judged at 5" in capsys.readouterr().out
    assert [(row[0], row[3]) for row in rows(found)] == [("own", "4"), ("own", "6")]
