"""What differs at parties: only the private rows of the stated parties change, by as much as stated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from consilium.protocol.errors import ConfigError
from consilium.simulations.datasets.base import Dataset, Public
from consilium.simulations.population.partition import Partition
from consilium.simulations.population.public import schema
from consilium.simulations.population.specs import DataSpec, ShiftSpec, shifted, swapped_parties, tilted
from consilium.simulations.scenario import divided_data, load_scenario
from consilium.simulations.summary import data_fingerprint
from tests.simulations.datasets.own import divided, patients, table_keys

QUERIES, PARTIES = 500, 5
EACH = 4_000


def people() -> tuple[Dataset, Partition]:
    """A number with deviation 3, a pixel that is always 0 in public, a code, a number of three values."""
    generator, rows = np.random.default_rng(0), QUERIES + 100 + EACH * PARTIES
    x = np.column_stack(
        [generator.normal(5, 3, rows), np.zeros(rows), generator.integers(0, 2, rows), generator.integers(0, 3, rows)]
    ).astype(np.float32)
    data = Dataset(
        name="people", title="", attribution="", features=("age", "none", "sex", "grade"), classes=("a", "b", "c"),
        owner_label="site", x=x, y=generator.integers(0, 3, rows), owner=np.zeros(rows, dtype=np.int64),
        public=Public(np.arange(QUERIES), np.arange(QUERIES, QUERIES + 100)),
    )  # fmt: skip
    starts = QUERIES + 100 + EACH * np.arange(PARTIES)
    parties = {f"p{at}": np.arange(start, start + EACH - 1) for at, start in enumerate(starts)}  # one row is nobody's
    return data, Partition(parties, np.arange(QUERIES), np.arange(QUERIES, QUERIES + 100))


def keys(shift: dict[str, object], **more: object) -> DataSpec:
    return DataSpec.model_validate({"set": "stroke", "shift": shift, **more})


def changed(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Rows that are not what they were."""
    different = before != after
    return np.flatnonzero(different if different.ndim == 1 else different.any(axis=1))


def test_only_private_rows_change() -> None:
    (data, partition), seed = people(), 1
    after = shifted(keys({"swap": 0.4}), data, partition, seed)
    names = list(partition.parties)
    who = swapped_parties(ShiftSpec(swap=0.4), names, seed)
    assert len(who) == 2
    assert set(changed(data.y, after.y)) == set(np.concatenate([partition.parties[name] for name in who]))
    assert (data.x == after.x).all() and data.y is not after.y


def test_noise_grows_from_party_to_party_in_deviations_of_the_public_rows() -> None:
    data, partition = people()
    after = shifted(keys({"noise": 0.5}), data, partition, 1)
    theirs = np.concatenate(list(partition.parties.values()))
    assert set(changed(data.x, after.x)) == set(theirs) and (data.y == after.y).all()
    spread = data.x[partition.queries].std(axis=0, dtype=np.float64)
    noise = {name: after.x[rows] - data.x[rows] for name, rows in partition.parties.items()}
    assert all((added[:, [1, 2]] == 0).all() for added in noise.values())  # a constant and a code
    for feature in (0, 3):
        levels = sorted(added[:, feature].std() / spread[feature] for added in noise.values())
        # 5 standard deviations of an estimate from 4,000: 5 / sqrt(8000)
        assert levels == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], rel=0.056)
    image = shifted(keys({"noise": 0.5}, standardise=False), data, partition, 1)  # all pixels have noise of one size
    for rows in partition.parties.values():
        sizes = (image.x[rows] - data.x[rows]).std(axis=0)
        assert sizes == pytest.approx(np.full(4, sizes.mean()), rel=0.056)


def test_of_a_table_numbers_get_noise_and_what_is_missing_stays_so(tmp_path: Path) -> None:
    patients().write_csv(tmp_path / "patients.csv")
    before, parts = divided(tmp_path, table_keys())
    after, _ = divided(tmp_path, table_keys(shift={"noise": 1.0}))
    assert before.features == after.features and before.schema == after.schema
    rows = np.concatenate(list(parts.parties.values()))
    different = before.x[rows] != after.x[rows]
    moved = {name for name, column in zip(before.features, different.T, strict=True) if column.any()}
    assert moved == {"age", "crp"}
    missing = before.x[rows, before.features.index("crp missing")] == 1
    assert (different[:, before.features.index("crp")] == ~missing).all() and missing.any()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_swapped_classes_are_called_by_each_others_names(seed: int) -> None:
    data, partition = people()
    after = shifted(keys({"swap": 1.0}), data, partition, seed)
    rows = np.concatenate(list(partition.parties.values()))
    pairs = {(int(a), int(b)) for a, b in zip(data.y[rows], after.y[rows], strict=True)}
    assert len(pairs) == 3 == len({b for _, b in pairs}) and all(a != b for a, b in pairs)


@pytest.mark.parametrize("wrong", [0.1, 1.0])
def test_wrong_labels_are_of_private_rows_and_as_many_as_stated(wrong: float) -> None:
    data, partition = people()
    after = shifted(keys({"wrong": wrong}), data, partition, 1)
    theirs = np.concatenate(list(partition.parties.values()))
    moved = changed(data.y, after.y)
    assert len(moved) == round(wrong * len(theirs)) and set(moved) <= set(theirs)
    steps = (after.y[moved] - data.y[moved]) % 3
    # every other class is as likely: 6 standard deviations of a share of one half
    assert abs((steps == 1).mean() - 0.5) < 3 / np.sqrt(len(moved))
    assert (after.x == data.x).all()
    again, other = (shifted(keys({"wrong": wrong}), data, partition, seed) for seed in (1, 2))
    assert (after.y == again.y).all() and (after.y != other.y).any()


def test_nothing_changes_at_zero() -> None:
    data, partition = people()
    assert shifted(keys({"swap": 0, "wrong": 0}), data, partition, 0) is data


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
    before, parts = divided_data(plain, 0)
    after, same = divided_data(asked, 0)
    assert data_fingerprint(before) != data_fingerprint(after) == data_fingerprint(divided_data(asked, 0)[0])
    assert schema(plain.data, before, parts) == schema(asked.data, after, same)
    assert all((parts.parties[name] == rows).all() for name, rows in same.parties.items())


def test_a_tilt_leaves_half_of_the_rows_and_moves_what_it_says() -> None:
    """Label: classes differ and features given the class do not; covariate: the other way round where they are
    independent. Means of 2,000 rows: 5 standard deviations are .11."""
    data, partition = people()
    spread = {}
    for key in ("label", "covariate"):
        left = tilted(keys({key: 1.0}), data, partition, 1)
        assert list(left.parties) == list(partition.parties)
        for name, rows in left.parties.items():
            assert set(rows) <= set(partition.parties[name]) and len(rows) == round(len(partition.parties[name]) / 2)
        ages = [data.x[rows, 0].mean() / 3 for rows in left.parties.values()]
        shares = [(data.y[rows] == 0).mean() for rows in left.parties.values()]
        spread[key] = np.ptp(shares), np.ptp(ages)
    assert spread["label"][0] > 0.2 > 0.11 > spread["label"][1]
    assert spread["covariate"][1] > 0.2 > 0.08 > spread["covariate"][0]
    assert tilted(keys({"swap": 1.0}), data, partition, 1) is partition


def test_sizes_differ_and_no_party_is_left_with_less_than_it_must_have() -> None:
    data, partition = people()
    left = tilted(keys({"quantity": 1.0}, least_rows=1500), data, partition, 1)
    sizes = [len(rows) for rows in left.parties.values()]
    assert min(sizes) == 1500 and len(set(sizes)) > 1
