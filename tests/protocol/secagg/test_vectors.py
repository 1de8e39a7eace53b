"""Test vectors: what another implementation must compute and refuse. Where a second, independent one is at hand
(cryptography's HKDF, AES in ECB, plain powers), it is held against the vectors as well."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.identity import Identity, derive, frame
from consilium.protocol.records import ARRAYS, BODY, encode_array, from_record, to_record
from consilium.sums.agreement import Agreement, public_of, seal, unseal
from consilium.sums.curve import ORDER, montgomery
from consilium.sums.masks import messages
from consilium.sums.masks.messages import (
    advert_parts,
    adverts_digest,
    challenge,
    consistency_parts,
    masked_parts,
    ring_digest,
    set_digest,
)
from consilium.sums.masks.ring import RING_DTYPES, MaskAdder
from consilium.sums.masks.shares import blend, combine, evaluate, lagrange, mask_secret, opens, share_bytes, share_value
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.packing import message_digest, pack_message, unpack_message
from consilium.sums.roster import Roster

VECTORS = Path(__file__).parent / "vectors"
PRIMITIVES = json.loads((VECTORS / "primitives.json").read_text())
MESSAGES = {vector["message"]: vector for vector in json.loads((VECTORS / "messages.json").read_text())}
MALFORMED = json.loads((VECTORS / "malformed.json").read_text())


def raw(text: str) -> bytes:
    return bytes.fromhex(text)


def record(fields: dict) -> RecordDict:
    """Fields as they stand in a vector -> what a node receives. None: the field is missing."""
    body, arrays = {}, {}
    for name, value in fields.items():
        if isinstance(value, dict) and "dtype" in value:
            array = np.frombuffer(raw(value["hex"]), value["dtype"]).reshape(value["shape"])
            arrays[name] = encode_array(array)
        elif value is not None:
            body[name] = raw(value["bytes"]) if isinstance(value, dict) else value
    made = RecordDict({BODY: ConfigRecord(body)})
    if arrays:
        made[ARRAYS] = ArrayRecord(arrays)
    return made


@pytest.mark.parametrize("name", MESSAGES)
def test_messages(name: str) -> None:
    vector, model = MESSAGES[name], getattr(messages, name)
    message = from_record(record(vector["fields"]), model)
    assert message.kind == vector["kind"]
    assert message_digest(message).hex() == vector["digest"]
    assert pack_message(from_record(to_record(message), model)) == pack_message(message)
    assert pack_message(unpack_message(pack_message(message), model)) == pack_message(message)


@pytest.mark.parametrize(
    "vector", MALFORMED, ids=[f"{vector['message']}.{vector['field']}: {vector['why']}" for vector in MALFORMED]
)
def test_malformed_messages(vector: dict) -> None:
    fields = {**MESSAGES[vector["message"]]["fields"], vector["field"]: vector["value"]}
    with pytest.raises(MalformedMessage):
        from_record(record(fields), getattr(messages, vector["message"]))


def test_every_message_has_vectors() -> None:
    models = {*messages.REQUESTS.values(), *messages.REPLIES.values()}
    assert {model.__name__ for model in models} == set(MESSAGES) == {vector["message"] for vector in MALFORMED}


def test_more_rows_than_a_roster_has_places() -> None:
    fields = {**MESSAGES["UnmaskReply"]["fields"]}
    fields["shares"] = {"dtype": "uint8", "shape": [1001, 32], "hex": "00" * 1001 * 32}
    with pytest.raises(MalformedMessage):
        from_record(record(fields), messages.UnmaskReply)


def test_a_message_does_not_pass_for_another() -> None:
    content = pack_message(from_record(record(MESSAGES["ConsistencyReply"]["fields"]), messages.ConsistencyReply))
    for damaged in (content[:-1], content + b"x", content[:20], b""):
        with pytest.raises(MalformedMessage):
            unpack_message(damaged, messages.ConsistencyReply)
    with pytest.raises(MalformedMessage, match="another kind"):
        unpack_message(content, messages.AdvertiseReply)


def test_roster_and_descriptor() -> None:
    vector = PRIMITIVES["descriptor"]
    roster = Roster.model_validate_json(json.dumps(PRIMITIVES["roster"]["json"]))
    assert roster.digest == PRIMITIVES["roster"]["digest"]
    content = vector["canonical"].encode()
    descriptor = MaskedTerms.open(content, raw(vector["signature"]), roster)
    assert descriptor.canonical() == content
    assert descriptor.ctx.hex() == vector["ctx"] == hashlib.sha256(content).hexdigest()
    coordinator = Identity(Ed25519PrivateKey.from_private_bytes(raw(vector["coordinator_private"])))
    assert descriptor.sign(coordinator).hex() == vector["signature"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"queries":2', '"queries":0'),
        ('"ring":16', '"ring":8'),
        ('"ring":16', '"ring":16.0'),
        ('"sigma":12.5', '"sigma":-1.0'),
        ('"sigma":12.5', '"sigma":NaN'),
        ('"sigma":12.5', '"sigma":12.50'),
        ('"phase":1', '"phase":3'),
        ('"teachers":2', '"teachers":"2"'),
        ('"version":2', '"version":1'),
        ('"version":2', '"version":2,"x":1'),
        ('"queries":2', '"queries": 2'),
        ('"lifetime":3600,', ""),
    ],
)
def test_malformed_descriptors(old: str, new: str) -> None:
    content = PRIMITIVES["descriptor"]["canonical"]
    assert old in content
    with pytest.raises(MalformedMessage):
        MaskedTerms.parse(content.replace(old, new).encode())


@pytest.mark.parametrize("vector", PRIMITIVES["frame"])
def test_frame(vector: dict) -> None:
    assert frame(vector["label"], *map(raw, vector["parts"])).hex() == vector["bytes"]


def test_frames_are_unambiguous() -> None:
    frames = [frame("ab"), frame("a", b"b"), frame("a", b"b", b""), frame("a", b"", b"b"), frame("a", b"bb")]
    assert len(set(frames)) == 5


@pytest.mark.parametrize("vector", PRIMITIVES["hkdf"])
def test_hkdf(vector: dict) -> None:
    parts = list(map(raw, vector["parts"]))
    info = frame(vector["label"], *parts)
    other = HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(raw(vector["secret"]))
    assert derive(raw(vector["secret"]), vector["label"], *parts).hex() == vector["key"] == other.hex()


@pytest.mark.parametrize("vector", PRIMITIVES["prg"])
def test_prg(vector: dict) -> None:
    values = np.zeros(vector["shape"], dtype=RING_DTYPES[vector["bits"]])
    MaskAdder(tuple(vector["shape"]), vector["bits"]).add(values, raw(vector["key"]))
    assert values.tolist() == vector["values"]
    blocks = b"".join(counter.to_bytes(16, "big") for counter in range(4))
    stream = Cipher(AES(raw(vector["key"])), ECB()).encryptor().update(blocks)
    assert values.tobytes() == stream[: values.nbytes]


@pytest.mark.parametrize("vector", PRIMITIVES["shamir"])
def test_shamir(vector: dict) -> None:
    coefficients = [int(text, 16) for text in vector["coefficients"]]
    powers = [sum(c * x**i for i, c in enumerate(coefficients)) % ORDER for x in vector["points"]]
    assert evaluate(coefficients, vector["points"]) == powers
    assert [share_bytes(share).hex() for share in powers] == vector["shares"]
    weights = lagrange(vector["lagrange"]["points"])
    assert [hex(weight) for weight in weights] == vector["lagrange"]["weights"]
    shares = [share_value(raw(text)) for text in vector["shares"][1:]]
    assert share_bytes(combine(weights, shares)).hex() == vector["secret"]  # type: ignore[arg-type]


def test_x25519() -> None:
    vector = PRIMITIVES["x25519"]
    (one, other), publics = map(raw, vector["private"]), list(map(raw, vector["public"]))
    assert [public_of(one), public_of(other)] == publics
    assert Agreement(one).with_peer(publics[1], "x").hex() == vector["secret"]
    assert Agreement(other).with_peer(publics[0], "x").hex() == vector["secret"]


def test_seal() -> None:
    vector = PRIMITIVES["seal"]
    key, nonce, plain, ctx = (raw(vector[name]) for name in ("key", "nonce", "plain", "ctx"))
    sealed = seal(key, nonce, plain, ctx, vector["sender"], vector["receiver"])
    assert sealed.hex() == vector["ciphertext"]
    assert unseal(key, nonce, sealed, ctx, vector["sender"], vector["receiver"]) == plain
    assert unseal(key, nonce, sealed, ctx, vector["receiver"], vector["sender"]) is None
    assert unseal(key, nonce, sealed, bytes(32), vector["sender"], vector["receiver"]) is None


def test_dealing() -> None:
    vector = PRIMITIVES["dealing"]
    names = ("mask", "self", "blind")
    secrets = {name: mask_secret(raw(vector["private"][name])) for name in names}
    assert all(opens(raw(vector["points"][name]), secrets[name]) for name in names)
    assert montgomery(raw(vector["points"]["mask"])).hex() == vector["x25519"]
    assert public_of(raw(vector["private"]["mask"])).hex() == vector["x25519"]
    shares = {name: [share_value(raw(text)) for text in vector["shares"][name]] for name in names}
    weights = lagrange(vector["receivers"][: vector["threshold"]])
    for name in names:
        assert combine(weights, shares[name][: vector["threshold"]]) == secrets[name]  # type: ignore[arg-type]
    r = share_value(raw(vector["challenge"]))
    assert vector["challenge"] == PRIMITIVES["statements"]["challenge"] and r is not None
    values = [blend(r, z, b, k) for z, b, k in zip(shares["blind"], shares["self"], shares["mask"], strict=True)]  # type: ignore[arg-type]
    assert [share_bytes(value).hex() for value in values] == vector["values"]


def test_statements() -> None:
    vector, ctx = PRIMITIVES["statements"], raw(PRIMITIVES["statements"]["ctx"])
    indices = np.array(vector["indices"], dtype=np.uint16)
    keys = np.frombuffer(raw(vector["keys"]), np.uint8).reshape(3, 128)
    signatures = np.frombuffer(raw(vector["signatures"]), np.uint8).reshape(3, 64)
    ciphertexts = np.frombuffer(raw(vector["ciphertexts"]), np.uint8).reshape(2, 112)
    drawn = challenge(ctx, vector["party"], raw(vector["u1"]), raw(vector["nonce"]), ciphertexts)
    assert share_bytes(drawn).hex() == vector["challenge"]
    assert adverts_digest(ctx, indices, keys, signatures).hex() == vector["u1"]
    assert set_digest("U2", ctx, indices).hex() == vector["u2"]
    assert set_digest("U3", ctx, indices).hex() == vector["u3"]
    assert ring_digest(np.array(vector["y"], dtype=np.uint16)).hex() == vector["y_digest"]


@pytest.mark.parametrize(
    ("statement", "arguments"),
    [
        (challenge, (b"c", 1, b"u", b"n", np.ones((1, 2), dtype=np.uint8))),
        (advert_parts, (b"c", 1, b"k")),
        (consistency_parts, (b"c", 1, b"1", b"2", b"3")),
        (masked_parts, (b"c", 1, b"1", b"2", np.ones((2, 2), dtype=np.uint16), np.ones(1, dtype=np.uint16))),
        (set_digest, ("U2", b"c", np.array([1], dtype=np.uint16))),
        (adverts_digest, (b"c", np.array([1], dtype=np.uint16), np.ones((1, 2), np.uint8), np.ones((1, 3), np.uint8))),
    ],
)
def test_a_statement_depends_on_all_that_it_states(statement, arguments: tuple) -> None:
    for at, argument in enumerate(arguments):
        other = "U3" if isinstance(argument, str) else argument + b"x" if isinstance(argument, bytes) else argument + 1
        assert statement(*arguments[:at], other, *arguments[at + 1 :]) != statement(*arguments)
