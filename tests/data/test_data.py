"""A party's data file: every way it can be wrong ends in a typed refusal that tells nothing about the rows.

The four hospitals of the UCI heart disease data, as hospitals would export them: missing values and codes.

What `party dry-run` reads is what a party trains on: the mapping of `party.toml` reaches the node.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import tomli_w

from consilium.data.mapping import DataRules
from consilium.data.private_rows import DataReport, FileRows, MemoryRows, Rows
from consilium.party.node import PartyNode
from consilium.protocol.refusals import Refusal, Refused
from consilium.protocol.schema import Range, Schema
from tests.federation import CLASSES, FEATURES, make_config, make_home, make_rows, node_at
from tests.party.test_node import join, node, vote

SCHEMA = make_config().rows


def save(path: Path, **changes) -> Path:
    x, y = make_rows(20, 1)
    values = {"x": x, "y": y, "features": np.array(FEATURES), "classes": np.array(CLASSES), **changes}
    np.savez(path, **{name: value for name, value in values.items() if value is not None})
    return path


def test_columns_and_classes_are_matched_by_name(tmp_path: Path) -> None:
    x, y = make_rows(20, 1)
    straight = FileRows(save(tmp_path / "a.npz")).read(SCHEMA)
    turned = FileRows(
        save(
            tmp_path / "b.npz",
            x=np.column_stack([x[:, ::-1], np.zeros(20)]),
            features=np.array([*FEATURES[::-1], "more"]),
            y=1 - y,
            classes=np.array(CLASSES[::-1]),
        )
    ).read(SCHEMA)
    assert repr(straight) == "Rows()"
    assert (straight.x == turned.x).all()
    assert (straight.y == turned.y).all()


HOSPITALS = {"cleveland": (303, 6), "hungarian": (294, 293), "switzerland": (123, 123), "va": (200, 199)}
"""Rows, and rows with a missing value."""
NAMES = {name: f"col {name.upper()}" for name in ("age", "sex", "cp", "trestbps", "chol", "fbs", "restecg", "thalach")}


def schema(heart: dict[str, np.ndarray], *ranges: Range) -> Schema:
    x = heart["X"].astype(np.float64)
    return Schema(
        features=tuple(str(name) for name in heart["feature_names"]),
        classes=("healthy", "diseased"),
        center=tuple(np.nanmean(x, axis=0)),
        scale=tuple(np.nanstd(x, axis=0)),
        ranges=ranges,
    )


def load(
    heart: dict[str, np.ndarray], hospital: str, path: Path, rule: str, *ranges: Range
) -> tuple[Rows | None, DataReport]:
    mine = heart["hospital"] == list(HOSPITALS).index(hospital)
    columns = {str(name): heart["X"][mine, index] for index, name in enumerate(heart["feature_names"])}
    frame = pl.DataFrame({**columns, "num": heart["num"][mine]}).fill_nan(None)
    frame = frame.with_columns(pl.col("sex").replace_strict({1.0: "male", 0.0: "female"})).rename(NAMES)
    if path.suffix == ".csv":
        frame.write_csv(path, null_value="?")
    else:
        frame.write_parquet(path)
    mapping = {**{str(name): str(name) for name in heart["feature_names"]}, **NAMES}
    rules = {
        "columns": {**mapping, "sex": {"column": "col SEX", "codes": {"male": 1, "female": 0}}},
        "label": {"column": "num", "classes": {"0": "healthy", **{str(grade): "diseased" for grade in range(1, 5)}}},
        "missing": {"rule": rule, "codes": ["?"]},
    }
    return FileRows(path, DataRules.model_validate(rules)).report(schema(heart, *ranges))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("hospital", HOSPITALS)
def test_every_hospital_can_bring_all_its_rows(heart, tmp_path: Path, hospital: str, suffix: str) -> None:
    rows, report = load(heart, hospital, tmp_path / f"data{suffix}", "mean")
    mine = heart["hospital"] == list(HOSPITALS).index(hospital)
    assert rows is not None
    assert report.used == HOSPITALS[hospital][0]
    expected = np.nan_to_num(schema(heart).standardise(heart["X"][mine]))
    assert np.allclose(rows.x, expected, rtol=0, atol=1e-5)  # CSV has the shortest decimals of float32
    assert (rows.y == (heart["num"][mine] > 0)).all()
    assert sum(report.filled.values()) == np.isnan(heart["X"][mine]).sum()


COLUMNS = {"age": "Alter", "pressure": "RR", "drowsy": "D"}


def write(tmp_path, **tables) -> PartyNode:
    home = make_home(tmp_path / "mapped", "p", least_rows_per_teacher=5)
    x, y = make_rows(40, 0)
    lines = [f"{b!r};{a!r};{c!r};{label}" for (a, b, c), label in zip(x.astype(float).tolist(), y, strict=True)]
    (home / "rows.csv").write_text("\n".join(["RR;Alter;D;Ergebnis", *lines]))
    policy = {"allowed_classes": list(CLASSES), "least_rows_per_teacher": 5, "most_epsilon": float("inf")}
    table = {
        "name": "p",
        "data": "rows.csv",
        "policy": {**policy, "allow_simulation": True, "collection": "plaintext"},
        "columns": COLUMNS,
        "label": {"column": "Ergebnis", "classes": {"0": "well", "1": "ill"}},
        "csv": {"separator": ";"},
        **tables,
    }
    (home / "party.toml").write_text(tomli_w.dumps(table))
    return node_at(home)


def test_a_mapped_csv_gives_the_votes_of_the_same_rows_in_an_npz(tmp_path) -> None:
    x, _ = make_rows(200, 5)
    votes = []
    for party in (write(tmp_path), node(tmp_path)):
        join(party)
        votes.append(party.vote(vote(x)).choices)
    assert (votes[0] == votes[1]).all()
    assert len(np.unique(votes[0][:, 0])) > 1


@pytest.mark.parametrize("wrong", [None, "nan", "class"])
def test_rows_in_memory_are_read_as_those_of_a_file(tmp_path: Path, caplog, wrong: str | None) -> None:
    """Whether or not they go the short way, which is of plain tables, where nobody looks for what is odd."""
    caplog.set_level(logging.ERROR, "consilium.party.remarks")
    with np.load(save(tmp_path / "a.npz")) as file:
        table = dict(file)
    if wrong == "nan":
        table["x"][1, 0] = np.nan
    if wrong == "class":
        table["classes"] = np.array(["well", "unheard"])
    np.savez(tmp_path / "a.npz", **table)
    outcomes = []
    for source in (MemoryRows(table), FileRows(tmp_path / "a.npz")):
        try:
            rows = source.read(SCHEMA)
            outcomes.append([rows.x.tobytes(), rows.y.tobytes(), rows.identities.tobytes()])
        except Refused as error:
            outcomes.append(error.refusal)
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], Refusal) is bool(wrong)
