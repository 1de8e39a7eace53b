"""`python -m benchmarks.study_tables FOLDER...`."""

from __future__ import annotations

import sys

from benchmarks.study_tables import main

if __name__ == "__main__":
    main(sys.argv[1:])
