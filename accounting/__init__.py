"""What a release costs in privacy. Pure functions of votes, noise scales and orders; usable on any vote histograms.

A mechanism makes an event of what it released; the accountant adds the curves of events; a guarantee prints itself
with everything that a reader must know. `curves` has a theorem a module, `worst` what leaves over all votes, `outcome`
what it costs at the votes at hand, `sanitise` such a number that may be published; `vote_costs` all of it in five
lines: the names in `__all__` (docs/researchers.md). Each is imported when it is first used, so that importing a module
of this room costs nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consilium.accounting.mechanisms import Confident, Difference, GNMax, Histogram, Immutable, Interactive, LNMax
    from consilium.accounting.vote_costs import EpsilonResult, calibrate, epsilon, guarantee

__all__ = [
    "Confident",
    "Difference",
    "EpsilonResult",
    "GNMax",
    "Histogram",
    "Immutable",
    "Interactive",
    "LNMax",
    "calibrate",
    "epsilon",
    "guarantee",
]

if not TYPE_CHECKING:  # a type checker would take any name for there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from consilium.accounting import mechanisms, vote_costs

        globals()[name] = value = getattr(vote_costs if hasattr(vote_costs, name) else mechanisms, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
