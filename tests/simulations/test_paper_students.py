"""The students of the papers: the settings of PATE-G as published, what its parts compute, and that all learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from consilium.models.base import Model
from consilium.protocol.label_source import no_progress
from consilium.simulations.papers import semi_supervised
from consilium.simulations.papers.description import CnnStudent, FeatureMatchingStudent, PaperStudent, VatStudent, train
from consilium.simulations.papers.semi_supervised import DenseModel, Discriminator, Duel, FlooredAdam, Normed
from tests.models.digits import digits

SPEC = FeatureMatchingStudent()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks and batches of a tenth of their size or less, so that a step takes a millisecond."""
    monkeypatch.setattr(semi_supervised, "HIDDEN", (64, 32, 32))
    monkeypatch.setattr(semi_supervised, "WIDTH", 32)
    monkeypatch.setattr(semi_supervised, "BATCH", 20)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_first_look_makes_every_output_standard() -> None:
    """Control: before it they are not."""
    layer, x = Normed(30, 8, False, generator()), 3 + torch.randn(500, 30, generator=generator(1))
    with torch.no_grad():
        before = layer(x)
        layer.first_look(x)
        after = layer(x)
    assert float(before.mean(dim=0).abs().max()) > 0.5
    np.testing.assert_allclose(after.mean(dim=0), np.zeros(8), atol=1e-5)
    np.testing.assert_allclose(after.std(dim=0, correction=0), np.ones(8), atol=1e-5)


def test_noise_is_fresh_while_it_learns_and_absent_afterwards(small: None) -> None:
    judge, x = Discriminator(64, 3, generator()), torch.rand(50, 64, generator=generator(1))
    judge.first_look(x)
    with torch.no_grad():
        assert not torch.equal(judge(x), judge(x))
        layers = tuple((weights.numpy(), offsets.numpy()) for weights, offsets in judge.plain())
        seen = x
        for weights, offsets in judge.plain()[:-1]:
            seen = torch.relu(functional.linear(seen, weights, offsets))
        expected = torch.softmax(functional.linear(seen, *judge.plain()[-1]), dim=1)
    rows = (x.numpy() * 16).astype(np.float64)
    rows[0, 0], rows[0, 1] = 0, 16
    model = DenseModel(semi_supervised.Pixels.of(rows), layers)
    np.testing.assert_allclose(model.predict_proba(rows)[1:], expected[1:], atol=1e-5)


def test_adam_by_hand() -> None:
    """Two steps of one number with gradients 2 and -1e-5: the floor counts where gradients are small."""
    x = torch.tensor([1.0, 1.0], requires_grad=True)
    adam, slopes = FlooredAdam([x, torch.zeros(3)]), torch.tensor([2.0, 1e-5])
    assert len(adam.parameters) == 1  # what is not learned is left alone
    for _ in range(2):
        adam.step((x * slopes).sum())
    # of a constant gradient g each step is .003 g / sqrt(g^2 + 1e-8)
    expected = 1 - 2 * 0.003 * slopes / torch.sqrt(slopes**2 + 1e-8)
    np.testing.assert_allclose(x.detach(), expected, rtol=1e-6)


def test_the_generator_matches_means_and_the_discriminator_tells_its_images_apart(small: None) -> None:
    """Also images that have no label. Control: before the first step neither is so."""
    x, y = digits()
    images = torch.from_numpy(x[:1000] / 16).float()
    duel = Duel(images, torch.from_numpy(y[:20]), 10, generator())
    duel.first_look()

    def apart() -> tuple[float, float]:
        with torch.no_grad():
            made = duel.maker(torch.rand(500, 100, generator=generator(2)))
            real, false = (torch.logsumexp(duel.discriminator(some), dim=1).mean() for some in (images[20:], made))
            return float((made.mean(dim=0) - images.mean(dim=0)).square().mean()), float(real - false)

    before = apart()
    for _ in range(100):
        duel.step()
    after = apart()
    assert after[0] < before[0] / 4
    assert abs(before[1]) < 0.3
    assert after[1] > 1


STUDENTS = [
    CnnStudent(channels=12, steps=150, settled=0),
    VatStudent(channels=12, steps=150, settled=0),
    FeatureMatchingStudent(epochs=10),
]


def learnt(spec: PaperStudent, labelled: int, rest: int, seed: int = 0, few: int = 0) -> Model:
    """few: steps or epochs, where it need not learn well."""
    x, y = digits()
    if few:
        spec = spec.model_copy(update={"epochs" if "epochs" in type(spec).model_fields else "steps": few})
    return train(x[:labelled], y[:labelled], x[labelled : labelled + rest], 10, spec, seed, no_progress)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("spec", STUDENTS, ids=lambda spec: spec.name)
class TestTraining:
    def test_learns(self, spec: PaperStudent) -> None:
        """Processors add in other orders, and some in 16 bits; by chance .1."""
        x, y = digits()
        model = learnt(spec, 300, 700)
        assert (model.predict_proba(x[1200:]).argmax(axis=1) == y[1200:]).mean() > 0.7

    def test_the_seed_decides(self, spec: PaperStudent) -> None:
        first, again, other = (learnt(spec, 30, 60, seed, few=2).predict_proba(digits()[0][:50]) for seed in (4, 4, 5))
        assert (first == again).all()
        assert (first != other).any()

    @pytest.mark.parametrize(("labelled", "rest"), [(2, 0), (30, 1)])
    def test_few_rows(self, spec: PaperStudent, labelled: int, rest: int) -> None:
        x = digits()[0]
        found = learnt(spec, labelled, rest, few=2).predict_proba(x[:7])
        assert found.shape == (7, 10)
        np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-12)


def test_unlabelled_images_help() -> None:
    """Two labels of each digit and 1,180 images without one; on 597 others."""
    x, y = digits()
    rows = np.random.default_rng(0).permutation(1200)
    labelled = np.concatenate([rows[y[rows] == digit][:2] for digit in range(10)])
    rest = np.setdiff1d(rows, labelled)
    right = []
    for kind in (VatStudent, CnnStudent):
        spec = kind(steps=200, augment="none", settled=0)
        model = train(x[labelled], y[labelled], x[rest], 10, spec, 0, no_progress)
        right.append((model.predict_proba(x[1200:]).argmax(axis=1) == y[1200:]).mean())
    assert right[0] > right[1] + 0.005


def test_it_stops_once_predictions_have_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks are five times as often as in a run, so that fewer steps show the same."""
    monkeypatch.setattr("consilium.models.images.loop.CHECK_EVERY", 10)
    x, y = digits()
    done: dict[float, int] = {}
    for settled in (0.0, 0.999):
        steps: list[int] = []
        told = lambda stage, step, total, steps=steps: steps.append(step)  # noqa: E731
        train(x[:40], y[:40], x[40:140], 10, CnnStudent(channels=8, steps=70, settled=settled), 0, told)
        done[settled] = max(steps)
    assert done == {0.0: 70, 0.999: 60}  # the first has nothing to compare with; at the second all changed
