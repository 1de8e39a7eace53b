"""The ledger: what was charged and released, what that costs, and whether a run holds what it claims."""
