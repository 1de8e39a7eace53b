"""A party's data file: every way it can be wrong ends in a typed refusal that tells nothing about the rows.

What `party rows` reads is what a party trains on: the mapping of `party.toml` reaches the node.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from consilium.data.private_rows import FileRows, MemoryRows
from consilium.party.node import PartyNode
from consilium.protocol.refusals import Refusal, Refused
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
