"""One thread meanwhile, and the caller's number of threads afterwards, whatever the environment says."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

COUNT = """
import json, sys
import numpy, scipy.linalg, sklearn.linear_model
if sys.argv[1] == "with torch":
    import torch
from threadpoolctl import threadpool_info
from consilium.protocol.node.threads import one_thread

def numbers():
    found = {each["num_threads"] for each in threadpool_info()}
    return sorted(found | ({torch.get_num_threads()} if "torch" in sys.modules else set()))

told = [numbers()]
try:
    with one_thread():
        told.append(numbers())
        raise KeyError
except KeyError:
    told.append(numbers())
print(json.dumps([told, "torch" in sys.modules]))
"""


@pytest.mark.parametrize("torch", [True, False])
@pytest.mark.slow
def test_one_thread_and_then_the_callers_number(torch: bool) -> None:
    """In a process of its own: libraries read the environment when they are loaded."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "3")
    done = subprocess.run(
        [sys.executable, "-c", COUNT, "with torch" if torch else "without"],
        env={**os.environ, **threads}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (before, meanwhile, after), loaded = json.loads(done.stdout)
    assert loaded is torch
    assert before[-1] == 3  # OpenMP's; OpenBLAS takes no more than there are cores
    assert meanwhile == [1]
    assert after == before
