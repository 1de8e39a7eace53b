"""What differs at parties, only in the private rows of the stated ones and as stated; what is said of divided rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from consilium.protocol.errors import ConfigError, NotEnoughParties
from consilium.report.warnings import warnings_of
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.datasets.source import open_source
from consilium.simulations.folder import data_fingerprint
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.public import look, schema
from consilium.simulations.population.specs import DataSpec, shifted, tilted
from consilium.simulations.scenario import divided_data, load_scenario
from tests.simulations.datasets.own import HOSPITALS, divided, patients, table_keys

QUERIES, PARTIES = 500, 5
EACH = 4_000


def made() -> tuple[Dataset, Partition]:
    """A number with deviation 3, a pixel that is always 0 in public, a code, a number of three values."""
    generator, rows = np.random.default_rng(0), QUERIES + 100 + EACH * PARTIES
    x = [generator.normal(5, 3, rows), np.zeros(rows), generator.integers(0, 2, rows), generator.integers(0, 3, rows)]
    data = Dataset(
        name="people", title="", attribution="", features=("age", "none", "sex", "grade"), classes=("a", "b", "c"),
        owner_label="site", x=np.column_stack(x).astype(np.float32), y=generator.integers(0, 3, rows),
        owner=np.zeros(rows, dtype=np.int64), public=Public(np.arange(QUERIES), np.arange(QUERIES, QUERIES + 100)),
    )  # fmt: skip
    starts = QUERIES + 100 + EACH * np.arange(PARTIES)
    parties = {f"p{at}": np.arange(start, start + EACH - 1) for at, start in enumerate(starts)}  # one row is nobody's
    return data, Partition(parties, np.arange(QUERIES), np.arange(QUERIES, QUERIES + 100))


DATA, PARTITION = made()
THEIRS = np.concatenate(list(PARTITION.parties.values()))


def keys(shift: dict[str, object], **more: object) -> DataSpec:
    return DataSpec.model_validate({"set": "stroke", "shift": shift, **more})


def after(seed: int = 1, standardise: bool | None = None, **shift: Any) -> Dataset:
    return shifted(keys(shift, standardise=standardise), DATA, PARTITION, seed)


def changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Rows that are not what they were."""
    different = before != after
    return np.flatnonzero(different if different.ndim == 1 else different.any(axis=1))


def test_noise_grows_from_party_to_party_in_deviations_of_the_public_rows() -> None:
    found = after(noise=0.5)
    assert set(changed(DATA.x, found.x)) == set(THEIRS) and (DATA.y == found.y).all()
    spread = DATA.x[PARTITION.queries].std(axis=0, dtype=np.float64)
    noise = [found.x[rows] - DATA.x[rows] for rows in PARTITION.parties.values()]
    assert all((added[:, [1, 2]] == 0).all() for added in noise)  # a constant and a code
    for feature in (0, 3):
        levels = sorted(added[:, feature].std() / spread[feature] for added in noise)
        # 5 standard deviations of an estimate from 4,000: 5 / sqrt(8000)
        assert levels == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], rel=0.056)
    image = after(noise=0.5, standardise=False)  # all pixels have noise of one size
    for rows in PARTITION.parties.values():
        sizes = (image.x[rows] - DATA.x[rows]).std(axis=0)
        assert sizes == pytest.approx(np.full(4, sizes.mean()), rel=0.056)


def test_of_a_table_numbers_get_noise_and_what_is_missing_stays_so(tmp_path: Path) -> None:
    patients().write_csv(tmp_path / "patients.csv")
    before, parts = divided(tmp_path, table_keys())
    found, _ = divided(tmp_path, table_keys(shift={"noise": 1.0}))
    assert before.features == found.features and before.schema == found.schema
    rows = np.concatenate(list(parts.parties.values()))
    different = before.x[rows] != found.x[rows]
    moved = {name for name, column in zip(before.features, different.T, strict=True) if column.any()}
    assert moved == {"age", "crp"}
    missing = before.x[rows, before.features.index("crp missing")] == 1
    assert (different[:, before.features.index("crp")] == ~missing).all() and missing.any()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_swapped_classes_are_called_by_each_others_names_and_nothing_else_changes(seed: int) -> None:
    found = after(seed, swap=0.4)
    who = [name for name, part in PARTITION.parties.items() if (DATA.y[part] != found.y[part]).all()]
    rows = np.concatenate([PARTITION.parties[name] for name in who])
    assert len(who) == 2 and set(changed(DATA.y, found.y)) == set(rows) and (DATA.x == found.x).all()
    pairs = {(int(a), int(b)) for a, b in zip(DATA.y[rows], found.y[rows], strict=True)}
    assert len(pairs) == 3 == len({b for _, b in pairs}) and all(a != b for a, b in pairs)


@pytest.mark.parametrize("wrong", [0.1, 1.0])
def test_wrong_labels_are_of_private_rows_and_as_many_as_stated(wrong: float) -> None:
    found, again, other = (after(seed, wrong=wrong) for seed in (1, 1, 2))
    moved = changed(DATA.y, found.y)
    assert len(moved) == round(wrong * len(THEIRS)) and set(moved) <= set(THEIRS)
    steps = (found.y[moved] - DATA.y[moved]) % 3
    # every other class is as likely: 6 standard deviations of a share of one half
    assert abs((steps == 1).mean() - 0.5) < 3 / np.sqrt(len(moved))
    assert (found.x == DATA.x).all() and (found.y == again.y).all() and (found.y != other.y).any()


def test_nothing_changes_at_zero() -> None:
    assert after(swap=0, wrong=0) is DATA
    assert tilted(keys({"swap": 1.0}), DATA, PARTITION, 1) is PARTITION


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data.shift.swap=1.5"], "shift.swap: must be at most 1, got 1.5"),
        (["data.shift.swap=0.001"], "swap 0.001 of 371 parties is nobody"),
        (["data.shift.amount=1"], "shift.amount: unknown key"),
    ],
)
def test_what_a_shift_may_not_say(overrides: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        divided_data(load_scenario("stroke", overrides), 0)


def test_a_shift_is_in_the_fingerprint_and_not_in_the_schema() -> None:
    plain, asked = load_scenario("stroke"), load_scenario("stroke", ["data.shift.swap=0.3"])
    (before, parts), (found, same) = divided_data(plain, 0), divided_data(asked, 0)
    assert data_fingerprint(before) != data_fingerprint(found) == data_fingerprint(divided_data(asked, 0)[0])
    assert schema(plain.data, before, parts) == schema(asked.data, found, same)
    assert all((parts.parties[name] == rows).all() for name, rows in same.parties.items())


def test_a_tilt_leaves_half_of_the_rows_and_moves_what_it_says() -> None:
    """Label: classes differ and features given the class do not; covariate: the other way round where they are
    independent. Means of 2,000 rows: 5 standard deviations are .11."""
    spread = {}
    for key in ("label", "covariate"):
        left = tilted(keys({key: 1.0}), DATA, PARTITION, 1)
        assert list(left.parties) == list(PARTITION.parties)
        for name, rows in left.parties.items():
            assert set(rows) <= set(PARTITION.parties[name]) and len(rows) == round(len(PARTITION.parties[name]) / 2)
        ages = [DATA.x[rows, 0].mean() / 3 for rows in left.parties.values()]
        shares = [(DATA.y[rows] == 0).mean() for rows in left.parties.values()]
        spread[key] = np.ptp(shares), np.ptp(ages)
    assert spread["label"][0] > 0.2 > 0.11 > spread["label"][1]
    assert spread["covariate"][1] > 0.2 > 0.08 > spread["covariate"][0]


def test_sizes_differ_and_no_party_is_left_with_less_than_it_must_have() -> None:
    left = tilted(keys({"quantity": 1.0}, least_rows=1500), DATA, PARTITION, 1)
    sizes = [len(rows) for rows in left.parties.values()]
    assert min(sizes) == 1500 and len(set(sizes)) > 1


ROWS, COUNT = 60, 60 * len(HOSPITALS)
PUBLIC = {"by": "owner", "owners": ["Nord", "West"]}
GENERATOR = np.random.default_rng(11)


def sound(**changes: Any) -> pl.DataFrame:
    """A table without a fault: enough rows, numbers that make them differ."""
    return patients(ROWS, **{"dose": np.round(GENERATOR.uniform(0, 5, COUNT), 4).tolist(), **changes})


def outcomes() -> pl.Series:
    return patients(ROWS)["outcome"]


def copied() -> pl.DataFrame:
    """Half of the rows of one hospital stand at the next one, too."""
    frame = sound()
    again = frame.slice(0, ROWS // 2).with_columns(pl.lit(HOSPITALS[2]).alias("hospital"))
    return pl.concat([frame, again])


FAULTS: dict[str, tuple[Callable[[], pl.DataFrame], dict[str, Any]]] = {
    "column 'died' says the label": (lambda: sound(died=(outcomes() == "dead").to_list()), {}),
    "no public row is 'lost', of 120": (sound, {"classes": ["alive", "dead", "lost"]}),
    "30 public rows can be asked and 30 are the test set, below 50": (sound,
     {"public": {"by": "owner", "owners": ["Nord"]}}),
    "22.2% of the private rows stand at a second party": (copied, {}),
    "partition made 4 parties, and 3 of them take part: 1 has fewer": (lambda: sound().slice(0, COUNT - ROWS + 5),
     {"least_rows": 6}),
}  # fmt: skip


def texts(folder: Path, frame: pl.DataFrame, keys: dict[str, Any]) -> list[str]:
    frame.write_csv(folder / "patients.csv")
    data, parts = divided(folder, table_keys(**{"public_share": None, "public": PUBLIC, **keys}))
    spec = load_scenario(str(folder / "own.toml")).data
    return [warning["text"] for warning in warnings_of(look(spec, 1, data, parts))]


def test_a_sound_table_is_not_warned_of(tmp_path: Path) -> None:
    assert texts(tmp_path, sound(), {}) == []


@pytest.mark.parametrize("told", FAULTS)
def test_each_fault_is_told_and_no_other(tmp_path: Path, told: str) -> None:
    make, keys = FAULTS[told]
    (text,) = texts(tmp_path, make(), keys)
    assert told in text


def test_rows_left_out_are_counted_by_why(tmp_path: Path) -> None:
    """Each hospital's patients are 1, 2 and so on: all but the public owners' rows are of patients who are at one of
    these. One row has no label, and one is a copy."""
    frame = sound(pid=(np.arange(COUNT) % ROWS + 1).tolist())
    unlabelled = frame.with_columns(pl.when(pl.int_range(COUNT) > 0).then("outcome").alias("outcome"))
    pl.concat([unlabelled, unlabelled[-1:]]).write_csv(tmp_path / "patients.csv")
    keys = {"public": PUBLIC, "public_share": None, "patient": "pid", "unlabelled": "drop", "duplicates": "drop"}
    with pytest.raises(NotEnoughParties, match=f"{COUNT - 2 * ROWS - 1} rows of patients .* put the .* name before"):
        divided(tmp_path, table_keys(**keys))
    spec = load_scenario(str(tmp_path / "own.toml")).data
    dataset = open_source(spec).dataset(np.arange(COUNT - 1))
    assert dataset.left_out == {"that equal another one in every column": 1, "without a label": 1}


LEAKS: dict[str, Callable[[], list[Any]]] = {
    "the label itself": lambda: outcomes().to_list(),
    "other words": lambda: outcomes().replace({"alive": "home", "dead": "morgue"}).to_list(),
    "a number that divides": lambda: [10 + at % 5 if says == "dead" else at % 7 for at, says in enumerate(outcomes())],
}
NO_LEAKS: dict[str, Callable[[], list[Any]]] = {
    "one row is other": lambda: ["dead" if 60 <= at < 90 else says for at, says in enumerate(outcomes())],
    "chance": lambda: GENERATOR.integers(0, 2, COUNT).tolist(),
}


@pytest.mark.parametrize("kind", [*LEAKS, *NO_LEAKS])
def test_leaks(tmp_path: Path, kind: str) -> None:
    made = {**LEAKS, **NO_LEAKS}[kind]()
    assert len(texts(tmp_path, sound(other=made), {})) == (kind in LEAKS)
