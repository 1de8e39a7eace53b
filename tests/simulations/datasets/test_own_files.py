"""Images in folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest

from consilium.protocol.errors import ConfigError, ConsiliumError, DataError
from consilium.simulations.datasets.own import _pixels
from consilium.simulations.datasets.spec import SourceSpec
from tests.simulations.datasets.own import divided


def paint(path: Path, value: int, size: tuple[int, int] = (20, 20)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("RGB", size, (value, value, 0)).save(path)


IMAGES = {"set": "images", "path": "scans", "size": 16, "public_share": 0.34, "least_rows": 4}


@pytest.mark.parametrize("folders", ["owner/class", "class/owner"])
def test_images_in_folders(tmp_path: Path, folders: str) -> None:
    for site in "ABC":
        for at in range(8):
            levels = {"owner": site, "class": "ill" if at % 2 else "well"}
            above = [levels[name] for name in folders.split("/")]
            paint(tmp_path.joinpath("scans", *above, f"{at}.{'png' if at < 4 else 'JPG'}"), 200 if at % 2 else 50)
    data, parts = divided(tmp_path, {**IMAGES, "folders": folders})
    assert (data.classes, data.owner_names, len(data.features)) == (("ill", "well"), ("A", "B", "C"), 256)
    assert data.features[0] == "pixel-00-00"
    assert (data.x.min() >= 0) and (data.x.max() <= 1)
    assert data.x[data.y == 0].mean() > 2 * data.x[data.y == 1].mean()
    assert len(parts.parties) == 2


HALF = np.repeat([0.2, 0.6], 8 * 16).reshape(16, 16)
"""Dark above, light below."""
BYTES = PIL.Image.fromarray(np.rint(HALF * 255).astype(np.uint8))
TURNED = PIL.Image.Exif()
TURNED[0x0112] = 3  # by 180 degrees
DEEP = np.rint(HALF * 65535).astype(np.uint16)


def save(path: Path, image: Any, keys: dict[str, Any]) -> Path:
    if isinstance(image, bytes):
        path.write_bytes(image)
    else:
        image.save(path, **keys)
    return path


READ: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "8 bits": (BYTES, "png", {}),
    "16 bits": (PIL.Image.fromarray(DEEP), "png", {}),
    "16 bits, turned": (PIL.Image.fromarray(DEEP[::-1, ::-1].copy()), "png", {"exif": TURNED}),
    "upside down": (BYTES.rotate(180), "jpg", {"exif": TURNED, "quality": 100}),
}
REFUSED: dict[str, tuple[Any, str, dict[str, Any], str]] = {
    "colours of print": (BYTES.convert("RGB").convert("CMYK"), "jpg", {}, "mode CMYK"),
    "transparent": (PIL.Image.merge("LA", (BYTES, BYTES)), "png", {}, "mode LA, or is transparent"),
    "a transparent colour": (BYTES.convert("RGB"), "png", {"transparency": (51, 51, 51)}, "transparent"),
    "a palette": (BYTES.convert("RGB").quantize(4), "png", {"bits": 4}, "mode P"),
    "floats": (BYTES.convert("F"), "tif", {}, "mode F, or is transparent in part: its range is not known"),
    "16 bits, TIFF": (PIL.Image.fromarray(DEEP), "tif", {}, "mode I;16"),
    "32 bits": (BYTES.convert("I"), "tif", {}, "mode I,"),
    "of 90 million pixels": (PIL.Image.new("1", (9500, 9500)), "png", {}, "more than 89,478,485 pixels"),
    "cut off": (bytes(BYTES.tobytes("jpeg", "L"))[:200], "jpg", {}, "no image that can be read"),
    "several": (BYTES, "png", {"save_all": True, "append_images": [BYTES.rotate(90)]}, "holds 2 images"),
}


@pytest.mark.parametrize("colour", ["grey", "rgb"])
@pytest.mark.parametrize("kind", READ)
def test_an_image_is_read_upright_and_scaled_by_its_depth(tmp_path: Path, kind: str, colour: str) -> None:
    image, suffix, keys = READ[kind]
    found = _pixels(save(tmp_path / f"1.{suffix}", image, keys), 16, colour).reshape(16, 16, -1)
    assert found.shape[2] == (1 if colour == "grey" else 3)
    np.testing.assert_allclose(found, np.broadcast_to(HALF[:, :, None], found.shape), atol=0.03)


@pytest.mark.parametrize("kind", REFUSED)
def test_an_image_whose_numbers_are_not_known_is_refused_by_its_mode(tmp_path: Path, kind: str) -> None:
    image, suffix, keys, told = REFUSED[kind]
    path = save(tmp_path / f"1.{suffix}", image, keys)
    with pytest.raises(DataError, match=told):
        _pixels(path, 16, "grey")


BAD_IMAGES: dict[str, tuple[Callable[[Path], Any], dict[str, Any], type[ConsiliumError], str]] = {
    "no size": (lambda folder: None, {"size": None}, ConfigError, r"needs data\.size"),
    "no images": (lambda folder: (folder / "scans").mkdir(), {}, DataError, r"has no images \(\.png, \.jpg"),
    "too deep": (lambda folder: paint(folder / "scans" / "a" / "b" / "1.png", 3), {}, DataError,
     r"a/b/1\.png lies 2 folders deep, data\.folders 'class' are 1"),
    "other files, and hidden ones": (lambda folder: [paint(folder / f"scans/{name}", 3) for name in (".old/1.png",
     "a/.2.png", "a/1.png", "a/2.bmp")], {}, DataError,
     r"3 files beside 1 images .*: \.old/1\.png, a/\.2\.png, a/2\.bmp"),
    "a class without images": (lambda folder: (paint(folder / "scans/a/1.png", 3), (folder / "scans/b").mkdir()), {},
     DataError, r"scans/b has no images"),
    "two broken": (lambda folder: (paint(folder / "scans/a/1.png", 3), (folder / "scans/a/2.png").write_bytes(b""),
     (folder / "scans/a/3.png").write_bytes(b"x")), {}, DataError, r"^2 of 3 images are of no use: .*2\.png"),
    "no image": (lambda folder: (paint(folder / "scans/a/1.png", 3), (folder / "scans/a/1.png").write_bytes(b"x")),
     {}, DataError, r"1\.png is no image that can be read"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_images_that_are_not_usable(tmp_path: Path, case: str) -> None:
    spoil, keys, kind, told = BAD_IMAGES[case]
    spoil(tmp_path)
    with pytest.raises(kind, match=told) as caught:
        divided(tmp_path, {name: value for name, value in {**IMAGES, **keys}.items() if value is not None})
    assert caught.value.action


def test_public_parts_that_a_set_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r'stroke has no public = \{ by = "file" \}\. Choose owner or share'):
        divided(tmp_path, {"set": "stroke", "public": {"by": "file", "file": "x.csv"}})


def test_shipped_sets_have_no_keys_of_tables() -> None:
    with pytest.raises(ValueError, match=re.escape('label is no key of set = "stroke"')):
        SourceSpec(set="stroke", label="x")
