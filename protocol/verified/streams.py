"""Elements of the field from a key: an AES-256-CTR keystream, without bias.

A number of 16 bits that is not below the prime, 15 in 65,536 of them, is replaced by the next good one of what follows
in the keystream, so that each element is exactly uniform if the keystream is.
"""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from consilium.protocol.verified.field import PRIME, WIRE_DTYPE

KEY_BYTES = 32
SPARE = 64
_BITS = WIRE_DTYPE.itemsize


def elements(key: bytes, count: int) -> np.ndarray:
    """uint16 (count,), each below the prime. key: 32 bytes, used for nothing else."""
    cipher = Cipher(AES(key), CTR(bytes(16))).encryptor()
    found = np.frombuffer(bytearray(cipher.update(bytes(count * _BITS))), dtype=WIRE_DTYPE)
    bad = np.flatnonzero(found >= PRIME)
    while len(bad):
        spare = np.frombuffer(cipher.update(bytes(SPARE * _BITS)), dtype=WIRE_DTYPE)
        good = spare[spare < PRIME][: len(bad)]
        found[bad[: len(good)]] = good
        bad = bad[len(good) :]
    return found
