"""Points of edwards25519 against published vectors and against `cryptography`, which computes them in another way."""

from __future__ import annotations

import hashlib
import secrets

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from consilium.sums.agreement import Agreement, public_of
from consilium.sums.curve import (
    BASE_POINT,
    FIELD_PRIME,
    NEUTRAL,
    ORDER,
    SIGN,
    SMALL_ORDER,
    add,
    add_points,
    base_multiple,
    combination,
    decompress,
    is_nothing,
    is_proper,
    ladder,
    montgomery,
    negative,
)
from consilium.sums.errors import BadKey
from consilium.sums.masks.shares import mask_agreement, mask_secret, new_mask_key, new_scalar, opens

# RFC 8032, section 7.1: hash of the seed, clamped (as in section 5.1.5), and public key of tests 1 to 3.
RFC_8032 = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
    ),
]
# RFC 7748, section 5.2 (scalar, u, result) and section 6.1 (both sides' public keys and the shared secret).
RFC_7748 = [
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


def clamped(content: bytes) -> int:
    return int.from_bytes(content, "little") & (2**255 - 8) & ~SIGN | 2**254


def same(point, content: bytes) -> bool:
    known = decompress(content)
    assert known is not None
    return is_nothing(add(point, negative(known)))


@pytest.mark.parametrize(("seed", "public"), RFC_8032)
def test_public_keys_of_rfc_8032(seed: str, public: str) -> None:
    scalar = clamped(hashlib.sha512(bytes.fromhex(seed)).digest()[:32])
    assert Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)).public_key().public_bytes_raw().hex() == public
    assert same(base_multiple(scalar), bytes.fromhex(public))
    assert not same(base_multiple(scalar + 1), bytes.fromhex(public))


@pytest.mark.parametrize(("scalar", "public", "result"), RFC_7748)
def test_the_ladder_of_rfc_7748(scalar: str, public: str, result: str) -> None:
    assert ladder(clamped(bytes.fromhex(scalar)), bytes.fromhex(public)).hex() == result


def test_the_base_point() -> None:
    base = decompress(BASE_POINT)
    assert base is not None
    assert montgomery(BASE_POINT) == (9).to_bytes(32, "little")
    assert is_nothing(base_multiple(ORDER)) and is_nothing(base_multiple(0)) and is_nothing(NEUTRAL)
    assert not is_nothing(base_multiple(1)) and same(base_multiple(1), BASE_POINT)
    minus = BASE_POINT[:31] + bytes([BASE_POINT[31] ^ 0x80])
    assert same(base_multiple(ORDER - 1), minus)
    assert not is_nothing(add(base_multiple(5), negative(base)))


@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_a_combination_is_the_sum_of_its_multiples(count: int) -> None:
    pairs = [new_scalar() for _ in range(count)]
    weights = [secrets.randbelow(2**256) for _ in pairs]
    weights[0] = 0
    total = sum(weight * scalar for weight, (scalar, _) in zip(weights, pairs, strict=True)) % ORDER
    points = [decompress(point) for _, point in pairs]
    found = combination(weights, points)  # type: ignore[arg-type]
    assert is_nothing(add_points(found, base_multiple(ORDER - total)))
    assert not is_nothing(add_points(found, base_multiple(ORDER - total + 1)))


@pytest.mark.parametrize("y", sorted(SMALL_ORDER))
@pytest.mark.parametrize("sign", [0, SIGN])
def test_points_of_small_order_are_none(y: int, sign: int) -> None:
    content = (y | sign).to_bytes(32, "little")
    assert not is_proper(content) and decompress(content) is None and not opens(content, 0)


@pytest.mark.parametrize(
    "content",
    [
        (FIELD_PRIME + 3).to_bytes(32, "little"),
        (2).to_bytes(32, "little"),
        b"\xff" * 32,
        BASE_POINT[:31],
        BASE_POINT + b"\x00",
    ],
    ids=["y + p", "off the curve", "all ones", "short", "long"],
)
def test_what_encodes_no_point(content: bytes) -> None:
    assert decompress(content) is None


class TestSecrets:
    """Keys and numbers whose points `cryptography` makes."""

    def test_a_mask_key_is_one_of_x25519_with_its_point(self) -> None:
        for _ in range(20):
            private, point = new_mask_key()
            assert clamped(private) == int.from_bytes(private, "little")
            assert public_of(private) == montgomery(point)
            assert opens(point, mask_secret(private))
            assert not opens(point, (mask_secret(private) + 1) % ORDER)
            assert not opens(point, ORDER - mask_secret(private)), "the sign counts"

    def test_numbers_are_of_both_signs(self) -> None:
        """Uniform modulo l: of 200, those that are private keys are between 55 and 145 but once in 1e10."""
        pairs = [new_scalar() for _ in range(200)]
        assert all(opens(point, scalar) for scalar, point in pairs)
        keys = sum(isinstance(mask_agreement(scalar), Agreement) for scalar, _ in pairs)
        assert 55 < keys < 145

    def test_the_shared_number_gives_the_private_key_back(self) -> None:
        (private, _), (_, peer) = new_mask_key(), new_mask_key()
        public = montgomery(peer)
        assert mask_agreement(mask_secret(private)).with_peer(public, "x") == Agreement(private).with_peer(public, "x")

    def test_a_number_that_is_no_private_key_agrees_all_the_same(self) -> None:
        """Its owner advertises the point and drops out: peers agree with the point, the coordinator with the number."""
        while True:
            secret, point = new_scalar()
            if not isinstance(mask_agreement(secret), Agreement):
                break
        private, peer = new_mask_key()
        agreed = Agreement(private).with_peer(montgomery(point), "x")
        assert mask_agreement(secret).with_peer(montgomery(peer), "x") == agreed
        with pytest.raises(BadKey, match="low order"):
            mask_agreement(secret).with_peer(bytes(32), "x")

    def test_a_part_of_small_order_changes_neither_check_nor_agreement(self) -> None:
        """Its owner can make no point that passes and gives the coordinator another mask than the peers."""
        scalar, point = new_mask_key()
        torsion = next(found for y in SMALL_ORDER if (found := small_order(y)) is not None and not trivial(found))
        known = decompress(point)
        assert known is not None
        twisted = encoded(add_points(torsion, add(NEUTRAL, known)))
        assert twisted != point and opens(twisted, mask_secret(scalar))
        private, peer = new_mask_key()
        agreed = Agreement(private).with_peer(montgomery(twisted), "x")
        assert mask_agreement(mask_secret(scalar)).with_peer(montgomery(peer), "x") == agreed


def small_order(y: int):
    """A point of small order with this y, in full coordinates, or None if y is not canonical."""
    if y >= FIELD_PRIME:
        return None
    d = -121665 * pow(121666, -1, FIELD_PRIME)
    square = (y * y - 1) * pow(d * y * y + 1, -1, FIELD_PRIME) % FIELD_PRIME
    x = pow(square, (FIELD_PRIME + 3) // 8, FIELD_PRIME)
    if x * x % FIELD_PRIME != square:
        x = x * pow(2, (FIELD_PRIME - 1) // 4, FIELD_PRIME) % FIELD_PRIME
    assert x * x % FIELD_PRIME == square
    return x, y, 1, x * y % FIELD_PRIME


def trivial(point) -> bool:
    return point[0] == 0 and point[1] == point[2]


def encoded(point) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, -1, FIELD_PRIME)
    x, y = x * inverse % FIELD_PRIME, y * inverse % FIELD_PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")
