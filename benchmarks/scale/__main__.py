"""`python -m benchmarks.scale [PART...]`."""

from __future__ import annotations

import sys

from benchmarks.scale import main

if __name__ == "__main__":
    main(*sys.argv[1:])
