"""What the README and docs claim, measured: `python -m benchmarks [NAME...]`."""
