"""The ledger: what was charged and released, what that costs, and whether the claims of a run hold."""
