"""One formula with its theorem each: Renyi curves of releases, and the way from a curve to (epsilon, delta)."""
