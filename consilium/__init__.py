"""Private knowledge transfer: parties vote, noisy counts or noisy winners are released, a student learns from them.

The names in `__all__` are the public ones, with the rooms that they come from in docs/api.md. Each is imported when it
is first used, so that `import consilium` takes milliseconds and brings neither torch nor Flower with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# The rooms stand beside this folder in a checkout and in the bundle that Flower makes of one, inside it where the
# package is installed. Links in this folder show them to type checkers and editors; Flower's bundle and a checkout
# without links (Windows) find them by this line.
if not os.path.isdir(os.path.join(os.path.dirname(__file__), "accounting")):
    __path__.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

if TYPE_CHECKING:
    from consilium.accounting.accountant import Accountant
    from consilium.accounting.guarantees import Guarantee
    from consilium.accounting.mechanisms import Confident, Difference, GNMax, Histogram, Immutable, Interactive, LNMax
    from consilium.accounting.units import Neighbouring, Noise, Towards, Unit
    from consilium.coordinator.distinguish import audit_mechanism
    from consilium.coordinator.verify import verify_run
    from consilium.models.published.model import load_model
    from consilium.protocol.errors import ConsiliumError
    from consilium.protocol.noise import SystemNoise
    from consilium.simulations.council.estimator import Council
    from consilium.simulations.council.runs import Run, load_run, simulate
    from consilium.simulations.run import run_scenario
    from consilium.simulations.scenario import Scenario, load_scenario
    from consilium.simulations.study.measures.shift import WhichShift, which_shift

    __version__: str

__all__ = [
    "Accountant",
    "Confident",
    "ConsiliumError",
    "Council",
    "Difference",
    "GNMax",
    "Guarantee",
    "Histogram",
    "Immutable",
    "Interactive",
    "LNMax",
    "Neighbouring",
    "Noise",
    "Run",
    "Scenario",
    "SystemNoise",
    "Towards",
    "Unit",
    "WhichShift",
    "__version__",
    "audit_mechanism",
    "load_model",
    "load_run",
    "load_scenario",
    "run_scenario",
    "simulate",
    "verify_run",
    "which_shift",
]

_MODULES = {
    "accounting.accountant": ("Accountant",),
    "accounting.guarantees": ("Guarantee",),
    "accounting.mechanisms": ("Confident", "Difference", "GNMax", "Histogram", "Immutable", "Interactive", "LNMax"),
    "accounting.units": ("Neighbouring", "Noise", "Towards", "Unit"),
    "coordinator.distinguish": ("audit_mechanism",),
    "coordinator.verify": ("verify_run",),
    "models.published.model": ("load_model",),
    "protocol.errors": ("ConsiliumError",),
    "protocol.noise": ("SystemNoise",),
    "simulations.council.estimator": ("Council",),
    "simulations.council.runs": ("Run", "load_run", "simulate"),
    "simulations.run": ("run_scenario",),
    "simulations.scenario": ("Scenario", "load_scenario"),
    "simulations.study.measures.shift": ("WhichShift", "which_shift"),
}
"""Public names by the module that they come from: for Python what the imports above are for type checkers."""

if not TYPE_CHECKING:  # a type checker would take any name for there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        from importlib import import_module

        if name == "__version__":
            value = _version()
        else:
            homes = [module for module, names in _MODULES.items() if name in names]
            if not homes:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            value = getattr(import_module(f"{__name__}.{homes[0]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """Of the installed distribution, which the package index knows as `consilium-pate`."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("consilium-pate")
    except PackageNotFoundError:
        return "0+unknown"
