"""Characters of free fonts, by font family: a stand-in for the Glyph data of Papernot et al. 2018, which are private.

152,826 grey images of 28x28 pixels, each a character of one of 1,044 faces, drawn with the face's own capital height;
150 kinds of characters, as many classes as Glyph has, and 305 families, which Glyph has no counterpart of. Some kinds
are nearly the same by nature: 0 and O, l and I, - and _. Glyph's unbalanced classes and wrong labels are not in the
file: `data.unbalanced` and `data.shift.wrong` make them.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path

import numpy as np

from consilium.protocol.errors import DataError
from consilium.simulations.datasets.arrays import read_arrays
from consilium.simulations.datasets.base import Dataset
from consilium.simulations.datasets.folder import data_file
from consilium.simulations.datasets.images import PIXELS, SIDE

FILE = "glyphs.npz"
SOURCE = "a drawing of your own: x uint8 (n, 28, 28), y and family (n,), and the names chars and families"


@cache
def load_glyphs(folder: Path) -> Dataset:
    """All rows, with the font family as owner; no public part of its own, so whole families are held out.

    Raises
    ------
    DataError : the file is not there, or its arrays do not fit each other.
    """
    path = data_file(folder, FILE, SOURCE)
    arrays = read_arrays(path, SOURCE)
    if missing := [name for name in ("x", "y", "family", "chars", "families") if name not in arrays]:
        raise DataError(f"{path} has no array {missing[0]}", f"Get it from {SOURCE}")
    x, y, family = arrays["x"], arrays["y"], arrays["family"]
    if x.dtype != np.uint8 or x.shape != (len(y), SIDE, SIDE) or not len(y):
        raise DataError(f"{path}: x is {x.dtype} {x.shape} for {len(y)} labels", f"Get it from {SOURCE}")
    classes, families = tuple(map(class_name, arrays["chars"])), tuple(map(str, arrays["families"]))
    for name, codes, words in (("y", y, classes), ("family", family, families)):
        if codes.dtype.kind not in "iu" or codes.shape != (len(y),):
            raise DataError(f"{path}: {name} is {codes.dtype} {codes.shape}", f"Get it from {SOURCE}")
        if not 0 <= codes.min() <= codes.max() < len(words):
            raise DataError(f"{path}: {name} has a code above its {len(words)} names", f"Get it from {SOURCE}")
    return Dataset(
        name="glyphs",
        title="Characters of fonts",
        attribution="Drawn from free fonts; each keeps its own licence.",
        features=PIXELS,
        classes=classes,
        owner_label="family",
        x=x.reshape(len(x), -1).astype(np.float32) / np.float32(255),
        y=y.astype(np.int64),
        owner=family.astype(np.int64),
        owner_names=families,
    )


def class_name(character: str) -> str:
    """What a character is called: a letter or a digit by itself, any other by its name, since a spreadsheet would take
    some of them for a formula.

    >>> class_name("A"), class_name("é"), class_name("="), class_name("-")
    ('A', 'é', 'equals sign', 'hyphen-minus')
    """
    return character if character.isalnum() else unicodedata.name(character, f"character {character!r}").lower()
