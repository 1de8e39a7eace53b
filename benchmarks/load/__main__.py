"""`python -m benchmarks.load [COMMIT]`: with a commit, its code is attacked too, as the control."""

from __future__ import annotations

import sys

from benchmarks.load.table import main

if __name__ == "__main__":
    main(*sys.argv[1:2])
