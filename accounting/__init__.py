"""What a release costs in privacy. Pure functions of votes, noise scales and orders; usable on any vote histograms.

A mechanism makes an event of what it released; the accountant adds the curves of events; a guarantee prints itself
with everything that a reader must know.

units       whose data may change, and how; who sees the releases; which noise is drawn
checks      what numbers and votes must be before any bound looks at them
errors      typed errors, none of which shows a vote
curves      a module for each mechanism, each formula with its theorem: Renyi curves, and the way to (epsilon, delta)
worst       what leaves, a winner or a bit, over all votes
outcome     what one label or one check costs at the votes at hand, computed instead of bounded
mechanisms  each mechanism once: parameters, what it releases, the noisy steps that it is charged for
events      what was released, as one frozen value that knows its cost
accountant  composition
guarantees  an epsilon with its unit, relation, audience and kind
label_costs what an event costs at the votes at hand
sanitise    a data-dependent epsilon that may be published
target      the worst case of several releases, and the least noise for an epsilon
vote_files  votes as researchers hold them
vote_costs  all of it in five lines, with `mechanisms`: the names below
cli         `consilium accounting`

The names in `__all__` are for researchers (docs/researchers.md). Each is imported when it is first used, so that
importing a module of this room costs nothing more.
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

_MODULES = {
    "vote_costs": ("EpsilonResult", "calibrate", "epsilon", "guarantee"),
    "mechanisms": ("Confident", "Difference", "GNMax", "Histogram", "Immutable", "Interactive", "LNMax"),
}
"""Public names by the module that they come from."""

if not TYPE_CHECKING:  # a type checker would take any name for there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        from importlib import import_module

        for module, names in _MODULES.items():
            if name in names:
                globals()[name] = value = getattr(import_module(f"{__name__}.{module}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
