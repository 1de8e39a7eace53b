"""Measuring a part in a process of its own, so that the peak of its memory is its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from consilium.models.devices import ONE_THREAD


def peak_mb() -> float:
    """Most memory that this process ever held, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Apart:
    """Processor time that is not the measured node's: of what stands for the others in the same process."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        start = time.process_time()
        try:
            yield
        finally:
            self.seconds += time.process_time() - start

    def own(self) -> float:
        """Processor seconds of this process until now, without what was set apart."""
        return time.process_time() - self.seconds


def in_own_process(module: str, *arguments: object) -> dict[str, Any]:
    """What `module`, run with these arguments on one thread, prints as its last line of JSON."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def answering(measures: dict[str, Callable[..., dict[str, Any]]]) -> None:
    """The other end of `in_own_process`: the first argument names the measure, the others are its whole numbers."""
    name, *numbers = sys.argv[1:]
    print(json.dumps(measures[name](*map(int, numbers))))
