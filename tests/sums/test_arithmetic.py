"""Rings, masks and shared secrets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from consilium.protocol.identity import Identity, frame
from consilium.sums.agreement import Agreement, seal, unseal
from consilium.sums.errors import OverflowRisk
from consilium.sums.field import FIELD
from consilium.sums.secure.ring import (
    RING_DTYPES,
    MaskAdder,
    choose_ring,
    decode,
    encode,
    pair_key,
    self_key,
    sigma_total,
)
from consilium.sums.secure.shares import WORDS, are_shares, new_seed, rebuild, split
from tests.sums.network import flipped

PRIME = FIELD.prime


@pytest.mark.parametrize(
    ("largest", "noise", "bits"),
    [(1, 0.0, 16), (2**15 - 1, 0.0, 16), (2**15, 0.0, 32), (100, 3629.0, 16), (107, 3629.0, 32), (2**31 - 1, 0.0, 32)],
)
def test_the_smallest_ring_that_is_safe(largest: int, noise: float, bits: int) -> None:
    assert choose_ring(largest, noise) == bits


@pytest.mark.parametrize(("largest", "noise"), [(2**31, 0.0), (0, 2**31 / 9)])
def test_no_ring_is_large_enough(largest: int, noise: float) -> None:
    with pytest.raises(OverflowRisk, match="2147483648"):
        choose_ring(largest, noise)


def test_noise_is_taken_as_if_nobody_drops() -> None:
    assert sigma_total(100.0, 25, 100) == 200.0


@pytest.mark.parametrize("bits", [16, 32])
def test_ring_is_signed(bits) -> None:
    edge = 2 ** (bits - 1)
    values = np.array([0, 1, -1, edge - 1, -edge, edge, -edge - 1, 2**bits + 3])
    coded = encode(values, bits)
    assert coded.dtype == np.dtype(f"uint{bits}")
    assert decode(coded, bits).tolist() == [0, 1, -1, edge - 1, -edge, -edge, edge - 1, 3]
    with np.errstate(over="ignore"):
        assert decode(encode(np.array([edge - 1]), bits) + encode(np.array([-5]), bits), bits) == [edge - 6]


@pytest.mark.parametrize("bits", [16, 32])
def test_pair_masks_cancel_and_own_masks_come_off(bits) -> None:
    shape, key = (7, 3), bytes(range(32))
    adder = MaskAdder(shape, bits)
    one, other = (np.zeros(shape, dtype=f"uint{bits}") for _ in range(2))
    adder.add_pair(one, key, 1, 2)
    assert one.any()
    adder.add_pair(other, key, 2, 1)
    assert not (one + other).any()
    adder.remove_pair(one, key, 1, 2)
    adder.add(other, key)
    adder.subtract(other, key)
    adder.remove_pair(other, key, 2, 1)
    assert not one.any() and not other.any()


def test_keys_differ_by_purpose_session_and_party() -> None:
    secret, ctx = bytes(32), bytes(range(32))
    keys = [
        self_key(secret, ctx, 1),
        self_key(secret, ctx, 2),
        self_key(secret, bytes(32), 1),
        pair_key(secret, ctx, 1, 2),
        pair_key(secret, ctx, 1, 3),
        pair_key(secret, bytes(32), 1, 2),
    ]
    assert len(set(keys)) == 6
    assert pair_key(secret, ctx, 2, 1) == pair_key(secret, ctx, 1, 2)


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=3), st.data())
def test_any_t_shares_give_the_seeds(keys: list[bytes], data: st.DataObject) -> None:
    seeds = [FIELD.elements(key, WORDS).tobytes() for key in keys]
    places = data.draw(st.lists(st.integers(0, 999), min_size=1, max_size=12, unique=True))
    t = data.draw(st.integers(1, len(places)))
    shares = dict(zip(places, split(seeds, t, places), strict=True))
    chosen = data.draw(st.permutations(places))[:t]
    assert [row.tobytes() for row in rebuild(chosen, np.stack([shares[place] for place in chosen]))] == seeds
    assert all(map(are_shares, shares.values()))


def test_fewer_than_t_shares_fit_any_seed() -> None:
    """Whatever the seed, t - 1 shares of it and any other value at zero lie on one polynomial of degree t - 1."""
    places, t = list(range(5)), 5
    shares = split([new_seed()], t, places)
    assert not np.array_equal(rebuild(places[:4], shares[:4]), rebuild(places, shares))
    points = [place + 1 for place in places]
    words = shares.view("<u4").reshape(5, WORDS).astype(object)
    for other in (0, 9):  # the last share that would make the first number of the seed this one
        below = [(words[i, 0], math.prod(x for x in points if x != points[i])) for i in range(4)]
        denominators = [math.prod(x - points[i] for x in points if x != points[i]) for i in range(5)]
        known = sum(w * n * pow(d, -1, PRIME) for (w, n), d in zip(below, denominators, strict=False))
        scale = math.prod(points[:4]) * pow(denominators[4], -1, PRIME)
        missing = (other - known) * pow(scale, -1, PRIME) % PRIME
        changed = shares.copy()
        changed.view("<u4").reshape(5, WORDS)[4, 0] = missing
        assert rebuild(places, changed).view("<u4")[0, 0] == other


def test_shares_are_those_of_plain_integers(monkeypatch) -> None:
    """Powers, sums and weights in floats, held against Python's integers, at the largest sizes of a roster."""
    drawn = iter([b"k" * 32])
    monkeypatch.setattr("consilium.sums.secure.shares.secrets.token_bytes", lambda size: next(drawn))
    seed, places, t = FIELD.elements(b"s" * 32, WORDS), [0, 1, 500, *range(600, 1000)], 300
    shares = split([seed.tobytes()], t, places).view("<u4").reshape(len(places), WORDS)
    others = FIELD.elements(b"k" * 32, (t - 1) * WORDS).reshape(t - 1, WORDS)
    for row, place in ((0, 0), (2, 500), (-1, 999)):
        for word in (0, WORDS - 1):
            coefficients = [int(seed[word]), *map(int, others[:, word])]
            assert shares[row, word] == sum(c * pow(place + 1, k, PRIME) for k, c in enumerate(coefficients)) % PRIME


def test_sharing_that_cannot_be() -> None:
    for threshold in (0, 3):
        with pytest.raises(ValueError, match="threshold"):
            split([new_seed()], threshold, [0, 1])
    with pytest.raises(ValueError, match="twice"):
        rebuild([1, 1], np.zeros((2, 1, 52), dtype=np.uint8))
    assert not are_shares(np.full(52, 255, dtype=np.uint8))


def test_what_is_sealed_opens_for_its_receiver_and_session_alone() -> None:
    """And is AES-256-GCM under HKDF-SHA256, as another implementation has them."""
    secret, ctx = bytes(range(32)), b"c" * 32
    sealed = seal(secret, b"shares", ctx, 1, 2)
    assert unseal(secret, sealed, ctx, 1, 2) == b"shares"
    for other in ((secret, ctx, 2, 1), (secret, b"d" * 32, 1, 2), (bytes(32), ctx, 1, 2)):
        assert unseal(other[0], sealed, *other[1:]) is None
    assert unseal(secret, flipped(sealed, 20), ctx, 1, 2) is None
    info = frame("share-key", ctx, b"\0\1", b"\0\2")
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)
    assert AESGCM(key).decrypt(sealed[:12], sealed[12:], None) == b"shares"


@pytest.mark.parametrize("bits", [16, 32])
def test_a_mask_is_aes_in_counter_mode(bits) -> None:
    values, key = np.zeros((7, 3), dtype=RING_DTYPES[bits]), bytes(range(32))
    MaskAdder((7, 3), bits).add(values, key)
    blocks = b"".join(counter.to_bytes(16, "big") for counter in range(8))
    assert values.tobytes() == Cipher(AES(key), ECB()).encryptor().update(blocks)[: values.nbytes]


RFC_7748 = [  # section 5.2: scalar, u, result
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
]
RFC_8032 = [  # section 7.1: secret and public key of tests 1 and 2
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
]


@pytest.mark.parametrize(("private", "public", "agreed"), RFC_7748)
def test_x25519(private: str, public: str, agreed: str) -> None:
    assert Agreement(bytes.fromhex(private)).with_peer(bytes.fromhex(public), "x").hex() == agreed


@pytest.mark.parametrize(("secret", "public"), RFC_8032)
def test_ed25519(secret: str, public: str) -> None:
    assert Identity.of_secret(bytes.fromhex(secret)).public.hex() == public
