"""Arrays out of MATLAB 5 files of somebody else's."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np

from consilium.protocol.errors import DataError

MOST_MAT_BYTES = 2**31
"""Of a MATLAB file: more than the largest of SVHN has, 1.3 GB."""
_MAT_READER = """
import json, math, resource, sys
import numpy as np
import scipy.io
path, most = sys.argv[1], json.loads(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
try:
    shapes = [(name, shape) for name, shape, _ in scipy.io.whosmat(path) if name in most]
    if absent := sorted(set(most) - {name for name, _ in shapes}):
        raise ValueError(f"there is no array {absent[0]}")
    for name, shape in shapes:
        if math.prod(shape) > most[name]:
            raise ValueError(f"array {name} has {math.prod(shape):,} numbers, the limit is {most[name]:,}")
    arrays = scipy.io.loadmat(path, variable_names=list(most))
    arrays = [np.asfortranarray(arrays[name]) for name in most]
    if odd := [name for name, array in zip(most, arrays) if array.dtype.kind not in "uif"]:
        raise ValueError(f"there is no array {odd[0]} of real numbers")
except Exception as error:
    print(json.dumps({"error": " ".join(f"{error or type(error).__name__}".split())[:200]}))
    sys.exit()
print(json.dumps({"arrays": [[array.dtype.str, array.shape] for array in arrays]}), flush=True)
for array in arrays:
    sys.stdout.buffer.write(array.T.data.cast("B") if array.size else b"")
"""
"""Run by a process of its own: scipy (1.17.1) crashes on some damaged files, three altered bytes were enough."""


def read_mat_arrays(path: Path, most: Mapping[str, int], source: str) -> dict[str, np.ndarray]:
    """The numeric arrays of these names out of a MATLAB file, in the shape and the type in which they are stored.

    most: how many numbers an array of each name may have; more are not unpacked. source: where to get the file.

    Raises
    ------
    DataError : it is no such file, damaged, has no array of such a name, or one that is too large.
    """
    try:
        if path.stat().st_size > MOST_MAT_BYTES:
            raise ValueError(f"more than {MOST_MAT_BYTES:,} bytes")
        command = [sys.executable, "-I", "-c", _MAT_READER, str(path), json.dumps(dict(most))]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
            out = cast("io.BufferedReader", reader.stdout)
            head = json.loads(out.readline() or b'{"error": "it is damaged"}')
            if "error" in head:
                raise ValueError(head["error"])
            arrays = {}
            for name, (kind, shape) in zip(most, head["arrays"], strict=True):
                array = np.empty(shape[::-1], dtype=np.dtype(kind))
                if array.nbytes and out.readinto(array.data.cast("B")) != array.nbytes:
                    raise ValueError("it is damaged")
                arrays[name] = array.T
            return arrays
    except (OSError, ValueError, MemoryError) as error:
        reason = f"cannot read {path}: {error or type(error).__name__}"
        raise DataError(reason, f"Get it anew from {source}") from None
