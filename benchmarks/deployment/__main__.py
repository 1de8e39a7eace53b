"""Entry point of `python -m benchmarks.deployment`."""

import sys

from benchmarks.deployment import main

main(sys.argv[1:])
