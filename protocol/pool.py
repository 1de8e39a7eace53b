"""The public pool, fixed before a federation starts: a Merkle tree over its rows, whose root is in the pinned terms. A
leaf is a row's query id, SHA-256 of its canonical float32 bytes, so a row that differs in one bit is not in the tree.
Leaves are sorted, and equal rows are one leaf: the root does not depend on the order of the file. Hashes of leaves and
of nodes differ in their first byte, and a node without a sibling moves up unchanged (as in RFC 9162, section 2.1.1). A
proof is for a whole set of queries: their places among the leaves, and the hashes that are missing on the way up."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from pydantic import Field

from consilium.protocol.digests import Hash
from consilium.protocol.errors import DataError
from consilium.protocol.models import Frozen
from consilium.protocol.queries import query_ids

MOST_ROWS = 10_000_000
HASH_BYTES = 32


class PoolTerms(Frozen):
    """What is pinned of a pool. root: of the Merkle tree, hex. size: leaves. least_distance: Euclidean, of
    standardised rows, below which one of two different ones was left out of the pool; no promise rests on it."""

    root: Hash
    size: int = Field(ge=1, le=MOST_ROWS)
    least_distance: float = Field(ge=0, le=1e6, allow_inf_nan=False)


class PoolTree:
    """The whole tree, where the pool is known. `ids`: query ids (hex) of its rows, in any order, equal ones allowed."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.leaves = sorted({bytes.fromhex(query_id) for query_id in ids})
        if not 1 <= len(self.leaves) <= MOST_ROWS:
            raise DataError(f"there are {len(self.leaves)} different public rows, it must be 1 to {MOST_ROWS}")
        self._place = {leaf: place for place, leaf in enumerate(self.leaves)}
        self._levels = [[_leaf(leaf) for leaf in self.leaves]]
        while len(self._levels[-1]) > 1:
            nodes = self._levels[-1]
            pairs = [_node(nodes[place], nodes[place + 1]) for place in range(0, len(nodes) - 1, 2)]
            self._levels.append(pairs + nodes[-1:] if len(nodes) % 2 else pairs)

    @classmethod
    def of_rows(cls, canonical: np.ndarray) -> PoolTree:
        return cls(query_ids(canonical))

    def terms(self, least_distance: float) -> PoolTerms:
        return PoolTerms(root=self._levels[-1][0].hex(), size=len(self.leaves), least_distance=least_distance)

    def missing(self, ids: Sequence[str]) -> list[int]:
        """Where in `ids` stand queries that are no row of the pool."""
        return [place for place, query_id in enumerate(ids) if bytes.fromhex(query_id) not in self._place]

    def prove(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Places of different queries, uint32 (queries,), and the proof, uint8 (hashes, 32). Raises DataError: a query
        is no row of the pool."""
        if outside := self.missing(ids):
            raise DataError(f"{len(outside)} of {len(ids)} queries are no public rows (first: row {outside[0]})")
        places = np.array([self._place[bytes.fromhex(query_id)] for query_id in ids], dtype=np.uint32)
        proof: list[bytes] = []

        def known(level: int, place: int) -> bytes:
            proof.append(self._levels[level][place])
            return proof[-1]

        _root({place: self._levels[0][place] for place in places.tolist()}, len(self.leaves), known)
        return places, np.frombuffer(b"".join(proof), dtype=np.uint8).reshape(-1, HASH_BYTES)


def proves(terms: PoolTerms, ids: Sequence[str], places: np.ndarray, proof: np.ndarray) -> bool:
    """Whether these queries (ids, hex) are different rows of the pool, by `places` and `proof` as `PoolTree.prove`
    gives them. Anything else, of whatever shape, is False."""
    if places.shape != (len(ids),) or not len(ids) or len(set(places.tolist())) < len(ids):
        return False
    if proof.ndim != 2 or proof.shape[1] != HASH_BYTES or proof.dtype != np.uint8 or int(places.max()) >= terms.size:
        return False
    leaves = {int(place): _leaf(bytes.fromhex(query_id)) for place, query_id in zip(places, ids, strict=True)}
    hashes = iter(row.tobytes() for row in proof)
    root = _root(leaves, terms.size, lambda level, place: next(hashes, None))
    return root is not None and root.hex() == terms.root and next(hashes, None) is None


def _root(known: dict[int, bytes], size: int, sibling_of: Callable[[int, int], bytes | None]) -> bytes | None:
    """Of a tree of so many leaves, of which those at some places are known. sibling_of: hashes that are lacking, by
    level and place, in the order of a proof; None where there is none: then there is no root."""
    level, order = 0, sorted(known)
    while size > 1:
        above: dict[int, bytes] = {}
        for place in order:
            if place // 2 in above:
                continue
            node, sibling = known[place], place ^ 1
            if sibling < size:
                other = known.get(sibling) or sibling_of(level, sibling)
                if not other:
                    return None
                node = _node(node, other) if place < sibling else _node(other, node)
            above[place // 2] = node
        known, order, size, level = above, sorted(above), (size + 1) // 2, level + 1
    return known[0]


def _leaf(content: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + content).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


_BLOCK = 1024
"""Rows that are compared at a time with all others: 8 kB of distances for each of these."""


def thin(rows: np.ndarray, least: float) -> np.ndarray:
    """Places, int64, of the rows that stay when each that is closer than `least` to an earlier one that stays is left
    out. Equal rows stay: they are one query. `rows` float64 (n, features), standardised; distances are Euclidean."""
    if least <= 0:
        return np.arange(len(rows))
    gone = np.zeros(len(rows), dtype=bool)
    # x.y above half of both squares less least^2 / 2; rounding, relative 1e-9 of the rows' own length, towards near
    half = ((1 - 1e-9) * (rows**2).sum(axis=1) - least**2 / 2) / 2
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, start + _BLOCK)
        for row, other in np.argwhere(rows[part] @ rows.T > half[part, None] + half):
            row += start
            if other < row and not gone[other] and not gone[row]:
                gone[row] = 0 < float(np.sqrt(((rows[row] - rows[other]) ** 2).sum())) < least
    return np.flatnonzero(~gone)
