"""Damaged requests of all kinds, made from real ones, against parties: none is accepted, and the federation goes on.

Damaged replies are in `coordinator/collection/`, and of secure sums in `sums/`.

A damaged message is never one that an honest node could have sent: fields are missing, too many, of other types or out
of bounds, arrays lie about their shape, type or length, and bits are flipped in what is hashed, signed or sealed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from consilium.accounting.mechanisms import GNMax
from consilium.coordinator.collection.exchange import Failure
from consilium.coordinator.collection.plaintext import PLAINTEXT
from consilium.coordinator.events import EventLog
from consilium.coordinator.federation import FederationRun
from consilium.protocol.config_files import load
from consilium.protocol.errors import ConfigError, MalformedMessage
from consilium.protocol.label_source import LabelSource
from consilium.protocol.messages import WireModel
from consilium.protocol.pool import PoolTree
from consilium.protocol.queries import canonical_queries
from consilium.protocol.records import ARRAYS, BODY, SALT_BYTES, from_record, to_record
from consilium.protocol.refusals import Refused
from consilium.sums.errors import SecAggError
from tests.federation import ACTIONS, REQUESTS, FakeTransport, HomeFile, make_config, make_homes, make_rows, make_secure

COPIES = 40
FREE = {"batch", "late", "party", "program", "starts", "teachers"}
"""Fields in which another number or name may be honest too: they are only given other types and impossible values."""
TAKEN = {"nonces", "ciphertexts", "challenges", "values", "choices"}
"""Arrays in which other bits may be honest too: of what peers sealed, which is answered with a complaint about the
peer, and of choices, which may be other classes."""
LONG = "x" * 20_000


def damaged(record: RecordDict, generator: np.random.Generator) -> RecordDict:
    """A copy with one thing wrong."""
    fields: dict[str, Any] = dict(record.config_records[BODY])
    arrays: dict[str, Array] = dict(record.array_records[ARRAYS]) if ARRAYS in record.array_records else {}
    names = list(fields) + list(arrays)
    name = names[int(generator.integers(len(names)))] if names else ""
    how = int(generator.integers(12))
    if how == 0:
        return RecordDict({"nothing": ConfigRecord({"x": 1})} if generator.random() < 0.5 else {})
    if how == 1 or not name:
        fields["more"] = 1
    elif how == 2:
        (fields if name in fields else arrays).pop(name)
    elif name in fields:
        fields[name] = _field(name, fields[name], generator)
    else:
        arrays[name] = _array(arrays[name], 6 if name in TAKEN else 7, generator)
    made = RecordDict({BODY: ConfigRecord(fields)})
    if arrays:
        made[ARRAYS] = ArrayRecord(arrays)
    return made


def _field(name: str, value: Any, generator: np.random.Generator) -> Any:
    """Of another type, of a value that none may have, or another value where none but the honest one holds."""
    others: list[Any] = [b"\x00", LONG, 1.5, [1, 2], math.nan, -1, -(2**62), ["x"] * 5000, b"no number"]
    if name not in FREE:
        if isinstance(value, bytes) and value:
            changed: Any = _flipped(value, 0, generator)
        elif isinstance(value, str):
            changed = ("1" if value[:1] == "0" else "0") + value[1:]
        else:
            changed = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else LONG[:64]
        others += [2**62, "", *[changed] * 6]
    other = others[int(generator.integers(len(others)))]
    return b"" if type(other) is type(value) and other == value else other


def _flipped(content: bytes, first: int, generator: np.random.Generator) -> bytes:
    """With one bit of another value, from this byte on."""
    flipped = bytearray(content)
    flipped[int(generator.integers(first, len(content)))] ^= 1 << int(generator.integers(8))
    return bytes(flipped)


def _array(array: Array, ways: int, generator: np.random.Generator) -> Array:
    shape, data = tuple(array.shape), bytes(array.data)
    lies: list[dict[str, Any]] = [
        {"shape": (2**40, *shape[1:])},
        {"shape": (*shape, 1)},
        {"shape": (-1,) * len(shape)},
        {"dtype": "object" if generator.random() < 0.5 else "float64"},
        {"data": data[:-1] or b"\x00"},
        {"data": data + bytes(100_000)},
        {"data": _flipped(data, SALT_BYTES, generator)} if len(data) > SALT_BYTES else {"shape": (3,)},
    ]
    lie = lies[int(generator.integers(ways))]
    return Array(**{"dtype": array.dtype, "shape": shape, "stype": array.stype, "data": data, **lie})


class HostileTransport(FakeTransport):
    """Real parties that are sent COPIES damaged requests before each real one. `accepted`: what should not be."""

    def __init__(self, homes: list[Path]) -> None:
        super().__init__(homes)
        self.generator, self.sent, self.accepted = np.random.default_rng(0), 0, Counter[str]()

    def exchange(self, requests: Mapping[int, WireModel], timeout: float) -> Iterator[tuple[int, RecordDict | Failure]]:
        known = all(request.kind not in ("query.hello", "train.teacher") for request in requests.values())
        if known:  # the first hello is the one that is pinned
            self._damage(requests)
        replies = dict(super().exchange(requests, timeout))
        if not known:
            self._damage(requests)
        yield from replies.items()

    def _damage(self, requests: Mapping[int, WireModel]) -> None:
        for node, request in requests.items():
            record, kind = to_record(request), request.kind
            for _ in range(COPIES):
                self.sent += 1
                with suppress(Refused, SecAggError, MalformedMessage, ConfigError):
                    ACTIONS[kind](self.parties[node], from_record(damaged(record, self.generator), REQUESTS[kind]))
                    self.accepted[kind] += 1


@pytest.mark.parametrize("votes", ["plaintext", "secure"])
def test_damaged_messages_are_refused_and_the_federation_goes_on(tmp_path: Path, votes: str) -> None:
    """Of four parties that pin its terms."""
    homes = make_homes(tmp_path / "parties", 4)
    keys = make_secure(homes, tmp_path)
    pool = canonical_queries(make_rows(30, 5)[0], 3)
    tree = PoolTree.of_rows(pool)
    roster = keys.roster.digest if votes == "secure" else ""
    config = make_config(collection=votes, roster=roster, public=tree.terms(0.01), mechanism=GNMax(sigma=3.0), seed=0)
    for home in homes:
        settings = load(home / "party.toml", HomeFile).model_dump(mode="json", exclude_none=True)
        (home / "party.toml").write_text(tomli_w.dumps({**settings, "terms": "terms.json"}))
        (home / "terms.json").write_text(config.terms().model_dump_json())
    transport = HostileTransport(homes)

    def student(source: LabelSource) -> None:
        source.ask(pool[:20])

    with closing(EventLog(tmp_path / "events.jsonl")) as log:
        FederationRun(transport, config, tmp_path, log, student, keys if roster else PLAINTEXT, pool=tree).run()
    assert transport.accepted == {}
    assert transport.sent >= COPIES * 4 * (3 if votes == "plaintext" else 7)
    summary = json.loads((tmp_path / "coordinator.json").read_text())
    assert (summary["asked"], summary["answered"]) == (20, 20)
