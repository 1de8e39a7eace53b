"""Published vectors, and a whole session with fixed entropy: what another implementation must give."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import Identity, frame, verify
from consilium.sums.secure import masks
from consilium.sums.secure.coordinator import SecureSum, drive
from consilium.sums.secure.masks import PRIME, Masks, are_shares, new_seeds, rebuild, split, uniform
from consilium.sums.secure.messages import REPLIES, Stage
from consilium.sums.secure.party import ANSWERS, pack, unpack
from tests.sums.secure.network import Federation, Network

hexed = bytes.fromhex


def test_x25519() -> None:
    """RFC 7748, section 6.1: Bob's key and Alice's."""
    bob = hexed("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    alice = hexed("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
    assert masks.Agreement(bob, b"c" * 32, 1).public == hexed(
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    )
    secret = hexed("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    key, _ = masks.Agreement(bob, b"c" * 32, 1).keys(0, alice)
    assert key == masks.expand(masks.extract(b"c" * 32, secret), frame("share-key") + bytes([0, 0, 0, 1]))


def test_hkdf() -> None:
    """RFC 5869, test case 1: the extracted key, and the first block."""
    extracted = masks.extract(hexed("000102030405060708090a0b0c"), b"\x0b" * 22)
    assert extracted == hexed("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")
    block = masks.expand(extracted, hexed("f0f1f2f3f4f5f6f7f8f9"))
    assert block == hexed("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf")


def test_ed25519() -> None:
    """RFC 8032, section 7.1, test 1: the key. What is signed is framed."""
    identity = Identity(hexed("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"))
    assert identity.public == hexed("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert verify(identity.public, identity.sign("a", b"b"), "a", b"b")
    frames = [frame("ab"), frame("a", b"b"), frame("a", b"b", b""), frame("a", b"", b"b"), frame("a", b"bb")]
    assert len({*frames}) == 5


def test_masks_are_the_keystream_of_aes_in_counter_mode() -> None:
    """SP 800-38A, F.5.5, says what AES-256-CTR is; ours begins at counter 2, under a key of seed and terms. Of these
    all: a coordinator could make two whose hashes begin alike, and sum votes on other queries for some parties."""
    secret = hexed("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    vector = Cipher(AES(secret), CTR(hexed("f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff"))).encryptor()
    assert vector.update(hexed("6bc1bee22e409f96e93d7e117393172a")) == hexed("601ec313775789a5b7a7f504bbf3d228")
    total, ctx = np.zeros((601, 1), dtype=np.uint32), bytes(range(32))
    Masks(total, ctx).add(secret)
    key_of_sum = hmac.digest(secret, frame("mask", ctx) + b"\1", "sha256")
    stream = Cipher(AES(key_of_sum), CTR((2).to_bytes(16, "big"))).encryptor().update(bytes(total.nbytes))
    assert total.tobytes() == stream
    Masks(total, ctx).subtract(secret)
    assert not total.any()
    Masks(total, ctx).add(secret)
    Masks(total, ctx[:31] + b"x").subtract(secret)
    assert total.any()


def test_pairs_agree_and_are_separate() -> None:
    one, other = secrets.token_bytes(32), secrets.token_bytes(32)

    def keys(ctx: bytes, me: int, peer: int, mine: bytes = one, theirs: bytes = other) -> tuple[bytes, bytes]:
        agreement = masks.Agreement(mine, ctx * 32, me)
        return agreement.keys(peer, masks.Agreement(theirs, ctx * 32, peer).public)

    key, seed = keys(b"c", 3, 7)
    assert (key, seed) == keys(b"c", 7, 3, other, one)
    assert len({key, seed, *keys(b"d", 3, 7), *keys(b"c", 3, 8), *keys(b"c", 2, 7)}) == 8
    sealed, bound = masks.seal(key, b"share", masks.between(3, 7)), masks.between(3, 7)
    assert masks.unseal(key, sealed, bound) == b"share" and masks.unseal(seed, sealed, bound) is None
    assert masks.unseal(key, sealed, masks.between(7, 3)) is None


def test_any_t_shares_rebuild_and_fewer_say_nothing() -> None:
    seeds, places = new_seeds(2), [0, 3, 4, 999]
    shares = split(seeds, 3, places)
    for chosen in combinations(range(4), 3):
        assert np.array_equal(rebuild([places[at] for at in chosen], shares[[*chosen]]), seeds)
    assert not np.array_equal(rebuild(places[:2], shares[:2]), seeds) and are_shares(shares)
    zero = np.zeros((1, 52), dtype=np.uint8)
    drawn = np.concatenate([split(zero, 2, [0, 1])[0].view("<u4").ravel() for _ in range(500)])  # 6,500 numbers
    seen = np.bincount(drawn * 16 // PRIME, minlength=16)
    assert ((seen - len(drawn) / 16) ** 2 / (len(drawn) / 16)).sum() < 70  # of 15 degrees: once in 10^8
    for threshold in (0, 5):
        with pytest.raises(ValueError):
            split(seeds, threshold, places)
    assert are_shares(np.full(52, 0).astype(np.uint8)) and not are_shares(np.full(52, 255, dtype=np.uint8))


def test_large_rosters_are_whole_in_floats() -> None:
    """1,000 places of the largest coefficients: products and sums stay below 2^53."""
    seeds = np.full(13, PRIME - 1, dtype="<u4").view(np.uint8)[None]
    shares = split(seeds, 667, range(1000))
    assert np.array_equal(rebuild(range(333, 1000), shares[333:]), seeds) and 667 * PRIME**2 < 2**53
    assert uniform(1000).max() < PRIME


def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list, SecureSum]:
    """A session with a lost party; entropy is SHAKE-256 of a counter."""
    drawn = iter(range(10**6))
    monkeypatch.setattr(secrets, "token_bytes", lambda n: hashlib.shake_256(b"%d" % next(drawn)).digest(n))
    monkeypatch.setattr(Identity, "generate", lambda: Identity(secrets.token_bytes(32)))
    federation = Federation(tmp_path, 7, in_memory=True)
    network = Network(federation, lost={Stage.MASKED: ["party-005"]})
    result = drive(federation.session(), network.send)
    return [*network.requests.values(), *(reply for _, _, reply in network.seen)], result


def test_a_transcript(tmp_path: Path, monkeypatch) -> None:
    """Every byte of every message of a session with fixed entropy."""
    sent, result = played(tmp_path, monkeypatch)
    digests = {}
    for message in sent:
        digests.setdefault(type(message).__name__, hashlib.sha256()).update(pack(message))
    assert {name: digest.hexdigest()[:16] for name, digest in digests.items()} == TRANSCRIPT
    assert result.sums.tolist() == [[5, 2, 5], [3, 5, 4], [4, 5, 3], [4, 4, 4]]


TRANSCRIPT = {
    "AdvertiseRequest": "f135afa25cd48c7c",
    "ShareRequest": "23c53692e7540017",
    "MaskedRequest": "821a2b956d633d0b",
    "ConsistencyRequest": "c7590f86c1aaf2e9",
    "UnmaskRequest": "4c963e947b564672",
    "AdvertiseReply": "e10c8f285bf0c886",
    "ShareReply": "62584e25f71dc82e",
    "MaskedReply": "f0b2493e240ef8de",
    "ConsistencyReply": "7ba9e7d72ede53eb",
    "UnmaskReply": "05e63a2f1f7cd2af",
}


def spoilt(name: str, value: Any) -> list[Any]:
    """A field of a message as it must not be."""
    if isinstance(value, int):
        return [None, -1, 1000, "2", 2.0]
    if isinstance(value, bytes):
        return [None] if name in ("terms", "seeds") else [None, value[1:], value + b"x", value.hex()]
    bad = [None, value.astype(np.int64), value.reshape(-1, 1, 1)]
    if value.dtype == np.uint16 and value.ndim == 1 and len(value) > 1:
        bad += [value[::-1].copy(), np.full(2, 999, dtype=np.uint16)]
    elif value.dtype == np.uint8 and name != "proof":
        bad += [value[:, 1:].copy(), np.zeros((1001, value.shape[1]), dtype=np.uint8)]
    return bad


def test_a_message_is_read_as_it_was_written_and_nothing_else_is(tmp_path: Path, monkeypatch) -> None:
    """Each field of each kind damaged: missing, cut, longer, of another type, rows that fall, too many."""
    messages_of = {type(message): message for message in played(tmp_path, monkeypatch)[0]}
    assert {*messages_of} == {*ANSWERS, *REPLIES.values()}
    for model, message in messages_of.items():
        content, fields = pack(message), dict(message)
        assert pack(model.model_validate(unpack(content))) == content
        fewer = ({name: fields[name][1:]} for name in model.ALIKE)
        for change in ({"other": 1}, *fewer, *({name: bad} for name in fields for bad in spoilt(name, fields[name]))):
            with pytest.raises(ValueError):
                model(**{name: value for name, value in {**fields, **change}.items() if value is not None})
        for damaged in (content[:-1], content + b"x", content[:20], b""):
            with pytest.raises(MalformedMessage):
                unpack(damaged)
