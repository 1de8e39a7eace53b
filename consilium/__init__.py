"""Private knowledge transfer: parties vote, noisy counts or noisy winners are released, a student learns from them.

The names in `__all__` are the public ones, which docs/api.md lists. Each is imported when it
is first used, so that `import consilium` takes milliseconds and brings neither torch nor Flower with it."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

# The rooms stand beside this folder in a checkout and in the bundle that Flower makes of one, inside it where the
# package is installed. Links in this folder show them to type checkers and editors; Flower's bundle and a checkout
# without links (Windows) find them by this line.
if not os.path.isdir(os.path.join(os.path.dirname(__file__), "accounting")):
    __path__.append(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

if TYPE_CHECKING:
    from consilium.accounting.accountant import Accountant as Accountant
    from consilium.accounting.guarantees import Guarantee as Guarantee
    from consilium.accounting.mechanisms import Confident as Confident
    from consilium.accounting.mechanisms import Difference as Difference
    from consilium.accounting.mechanisms import GNMax as GNMax
    from consilium.accounting.mechanisms import Histogram as Histogram
    from consilium.accounting.mechanisms import Immutable as Immutable
    from consilium.accounting.mechanisms import Interactive as Interactive
    from consilium.accounting.mechanisms import LNMax as LNMax
    from consilium.accounting.units import Neighbouring as Neighbouring
    from consilium.accounting.units import Noise as Noise
    from consilium.accounting.units import Towards as Towards
    from consilium.accounting.units import Unit as Unit
    from consilium.coordinator.distinguish import audit_mechanism as audit_mechanism
    from consilium.coordinator.verify import verify_run as verify_run
    from consilium.models.published.model import load_model as load_model
    from consilium.protocol.errors import ConsiliumError as ConsiliumError
    from consilium.protocol.noise import SystemNoise as SystemNoise
    from consilium.simulations.council.estimator import Council as Council
    from consilium.simulations.council.runs import Run as Run
    from consilium.simulations.council.runs import load_run as load_run
    from consilium.simulations.council.runs import simulate as simulate
    from consilium.simulations.run import run_scenario as run_scenario
    from consilium.simulations.scenario import Scenario as Scenario
    from consilium.simulations.scenario import load_scenario as load_scenario
    from consilium.simulations.study.measures.shift import WhichShift as WhichShift
    from consilium.simulations.study.measures.shift import which_shift as which_shift

    __version__: str

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
__all__ = sorted(["__version__", *(name for names in _MODULES.values() for name in names)])  # pyright: ignore[reportUnsupportedDunderAll]

if not TYPE_CHECKING:  # a type checker would take any name for there

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used; the version is of the distribution, `consilium-pate`."""
        from importlib import import_module
        from importlib.metadata import PackageNotFoundError, version

        value = "0+unknown"
        if name == "__version__":
            with suppress(PackageNotFoundError):
                value = version("consilium-pate")
        else:
            homes = [module for module, names in _MODULES.items() if name in names]
            if not homes:
                raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
            value = getattr(import_module(f"{__name__}.{homes[0]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
