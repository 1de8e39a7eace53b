"""What `party check` reads is what a party trains on: the mapping of `party.toml` reaches the node."""

from __future__ import annotations

import numpy as np
import tomli_w

from consilium.party.home import open_home
from consilium.party.node import PartyNode
from consilium.protocol.refusals import Rule
from tests.federation import CLASSES, make_home, make_rows
from tests.party.test_node import join, node, refused, vote

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
    return PartyNode(open_home(home))


def test_a_mapped_csv_gives_the_votes_of_the_same_rows_in_an_npz(tmp_path) -> None:
    x, _ = make_rows(200, 5)
    votes = []
    for party in (write(tmp_path), node(tmp_path)):
        join(party)
        votes.append(party.vote(vote(x)).choices)
    assert (votes[0] == votes[1]).all()
    assert len(np.unique(votes[0][:, 0])) > 1


def test_a_feature_that_the_mapping_leaves_out_is_refused(tmp_path) -> None:
    columns = {name: column for name, column in COLUMNS.items() if name != "drowsy"}
    assert refused(lambda party: join(party), write(tmp_path, columns=columns)) is Rule.SCHEMA
