"""Network teachers of images in colour: what tells the class is the hue, of which a grey image shows nothing."""

from __future__ import annotations

import numpy as np
import pytest

from consilium.data.private_rows import Rows
from consilium.models.keys import CnnSpec
from consilium.models.network_teacher import NetworkTeacher
from consilium.models.table import check_teacher, fit_teachers
from consilium.protocol.images import ImageShape, image_shape
from consilium.protocol.schema import Schema, why_no_images

SIDE = 16
SPEC = CnnSpec(hidden=16, channels=4, epochs=16, batch=16, learning_rate=0.01)


def hues(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images of 16x16 pixels, as rows; one of three channels is brighter, in a place by lot, and the sum is alike."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 3, count)
    x = generator.uniform(0, 0.4, size=(count, SIDE, SIDE, 3))
    for index, label in enumerate(y):
        at = generator.integers(0, 6)
        x[index, at : at + 8, at : at + 8, (label + np.arange(3)) % 3] += np.array([0.6, 0.1, 0.1])[:, None, None]
    return x.reshape(count, -1), y


@pytest.mark.parametrize("layers", [1, 3])
def test_a_teacher_tells_hues_and_one_of_grey_images_does_not(layers: int) -> None:
    spec = SPEC.model_copy(update={"dense_layers": layers})
    (x, y), (other, truth) = hues(150), hues(150, seed=1)
    right = (fit_teachers(spec, Rows(x, y), [np.arange(150)], [3], 3)[0].predict(other) == truth).mean()
    assert right > 0.9
    grey, other_grey = (rows.reshape(-1, SIDE * SIDE, 3).mean(axis=2) for rows in (x, other))
    blind = fit_teachers(spec, Rows(grey, y), [np.arange(150)], [3], 3)[0]
    assert (blind.predict(other_grey) == truth).mean() < 0.55


def test_the_network_of_the_papers_for_svhn() -> None:
    x, y = hues(20)
    module = NetworkTeacher(CnnSpec(dense_layers=3, epochs=1), 0).fit(x, y).module_
    assert [tuple(weight.shape) for name, weight in module.named_parameters() if name.endswith("weight")] == [
        (16, 3, 5, 5), (32, 16, 5, 5), (128, 32), (128, 128), (128, 128), (3, 128),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("inputs", "least", "expected"),
    [
        (256, 16, (1, 16)), (768, 16, (3, 16)), (192, 16, None), (2, 1, None), (3071, 1, None),
    ],
)  # fmt: skip
def test_what_a_row_is(inputs: int, least: int, expected: tuple[int, int] | None) -> None:
    assert image_shape(inputs, least) == expected


def test_planes_of_pixels_beside_each_other() -> None:
    rows = np.arange(2 * 12).reshape(2, 12)
    planes = ImageShape(3, 2).planes(rows)
    assert planes[1].tolist() == [[[12, 15], [18, 21]], [[13, 16], [19, 22]], [[14, 17], [20, 23]]]
    assert ImageShape(1, 2).planes(rows[:, :4]).tolist() == rows[:, :4].reshape(2, 1, 2, 2).tolist()
    assert ImageShape(3, 2).planes(rows[:0]).shape == (0, 3, 2, 2)


def test_a_teacher_of_images_takes_a_schema_in_colour() -> None:
    schema = Schema.of_images(tuple(map(str, range(3072))), ("a", "b"), "none")
    assert why_no_images(schema) == ""
    check_teacher(SPEC, schema)
