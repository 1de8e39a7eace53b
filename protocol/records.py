"""Messages on Flower's wire: a ConfigRecord for the fields and an ArrayRecord for the matrices. Matrices travel as raw
little-endian bytes behind a random salt, with type and shape beside them. Flower keeps them under the hash of what they
hold, and tells every node whether it has one of that hash: without salt a party that guesses another's votes would be
told so. Reading checks that type, shape and bytes agree before anything is allocated, and nothing is ever unpickled."""

from __future__ import annotations

import math
import os
from typing import Any, TypeVar

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from pydantic import ValidationError

from consilium.protocol.errors import MalformedMessage
from consilium.protocol.messages import WireModel
from consilium.protocol.refusals import Refusal

BODY, ARRAYS, REFUSAL, SALT = "body", "arrays", "refusal", "salt"
RAW = "consilium.raw"
DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
SALT_BYTES = 16
MOST_CELLS, MOST_SIDES = 200_000_000, 4
M = TypeVar("M", bound=WireModel)
R = TypeVar("R", ConfigRecord, ArrayRecord)


def encode_array(array: np.ndarray) -> Array:
    """Any array of a plain number type -> Flower Array with salt and raw little-endian bytes."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    data = os.urandom(SALT_BYTES) + little.tobytes()
    return Array(dtype=array.dtype.name, shape=tuple(int(n) for n in array.shape), stype=RAW, data=data)


def decode_array(array: Array) -> np.ndarray:
    """Flower Array -> numpy array that cannot be written to: its bytes are those of the message. Raises
    MalformedMessage: type, shape and bytes do not agree."""
    if array.stype != RAW or array.dtype not in DTYPES:
        raise MalformedMessage(f"array of type {array.stype[:20]!r}/{array.dtype[:20]!r} is not of this protocol")
    dtype = np.dtype(array.dtype).newbyteorder("<")
    # an empty array may have huge other sides, which numpy cannot make either
    possible = len(array.shape) <= MOST_SIDES and min(array.shape, default=1) >= 0
    if not possible or math.prod(max(n, 1) for n in array.shape) > MOST_CELLS:
        raise MalformedMessage("array has an impossible shape")
    if math.prod(array.shape) * dtype.itemsize + SALT_BYTES != len(array.data):
        raise MalformedMessage("array has another number of bytes than its shape and type say")
    values = np.frombuffer(array.data, dtype=dtype, offset=SALT_BYTES)
    return values.reshape(array.shape).astype(dtype.newbyteorder("="), copy=False)


def to_record(message: WireModel, encoded: dict[int, Array] | None = None) -> RecordDict:
    """Message -> RecordDict. encoded: arrays by their id that other messages share with it, which live as long."""
    encoded = {} if encoded is None else encoded
    arrays: dict[str, Array] = {}
    matrices = {name: value for name, value in message if isinstance(value, np.ndarray)}
    for name, value in matrices.items():
        if id(value) not in encoded:
            encoded[id(value)] = encode_array(value)
        arrays[name] = encoded[id(value)]
    record = RecordDict({BODY: ConfigRecord(message.model_dump(exclude={*matrices}))})
    if arrays:
        record[ARRAYS] = ArrayRecord(arrays)
    return record


def from_record(record: RecordDict, model: type[M], most_bytes: int | None = None) -> M:
    """RecordDict -> message of the given model. most_bytes: in its arrays, where there is such a limit. Raises
    MalformedMessage: a missing, unknown or mistyped field, or too many bytes; it names fields, never their values."""
    body, arrays = _held(record, BODY, ConfigRecord), _held(record, ARRAYS, ArrayRecord)
    if body is None or len(record) > 2:
        raise MalformedMessage(f"{model.kind}: the message has not the records of this protocol")
    fields: dict[str, Any] = dict(body)
    if arrays is not None:
        if most_bytes is not None and sum(len(array.data) - SALT_BYTES for array in arrays.values()) > most_bytes:
            raise MalformedMessage(f"{model.kind}: arrays of more than {most_bytes} bytes")
        fields.update({name: decode_array(array) for name, array in arrays.items()})
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        wrong = sorted({".".join(str(part) for part in item["loc"])[:40] for item in error.errors(include_input=False)})
        raise MalformedMessage(f"{model.kind}: bad or missing fields: {', '.join(wrong[:5])}") from None


def refusal_to_record(refusal: Refusal) -> RecordDict:
    """Refusal -> RecordDict, with a salt: it may follow from a party's rows."""
    fields = refusal.model_dump(mode="json", exclude_none=True)
    return RecordDict({REFUSAL: ConfigRecord({**fields, SALT: os.urandom(SALT_BYTES)})})


def refusal_from_record(record: RecordDict) -> Refusal | None:
    """The refusal that a reply carries, or None where it carries an answer. Raises MalformedMessage: a refusal that is
    not of this protocol."""
    refusal = _held(record, REFUSAL, ConfigRecord)
    if refusal is None:
        return None
    try:
        return Refusal.model_validate({name: value for name, value in refusal.items() if name != SALT})
    except ValidationError:
        raise MalformedMessage("refusal has not the form of this protocol") from None


def _held(record: RecordDict, name: str, kind: type[R]) -> R | None:
    """The record of that name, if it is of that kind. Flower's own views by kind would make a cycle with the message,
    which then stays in memory until the next collection of cycles."""
    held = record.get(name)
    return held if isinstance(held, kind) else None
