"""`python -m benchmarks.peers [PARTIES...]`."""

from __future__ import annotations

import sys

from benchmarks.peers import main

if __name__ == "__main__":
    main(*sys.argv[1:])
