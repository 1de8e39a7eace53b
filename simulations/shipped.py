"""Scenarios and studies that come with the package, and files of one's own: which is meant by a name."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from enum import Enum
from importlib.resources import files
from pathlib import Path

from consilium.protocol.errors import ConfigError

DEFAULT = "stroke"
"""The scenario of `consilium run`."""


class Shipped(Enum):
    """What comes with the package: its word, the package and folder of its files, and what lists them."""

    SCENARIO = ("scenario", "consilium.simulations.scenarios", "", "consilium scenarios")
    PAPER = ("paper", "consilium.simulations.papers", "", "consilium scenarios")
    STUDY = ("study", "consilium.simulations.study", "shipped", "consilium study list")

    def files(self) -> dict[str, Path]:
        """Names and files, in order."""
        _, package, folder, _ = self.value
        return {path.stem: path for path in sorted((Path(str(files(package))) / folder).glob("*.toml"))}

    def path(self, name: str) -> Path:
        """Of the one that ships under this name, or of a file.

        Raises
        ------
        ConfigError : neither is there; with the nearest names, and where another kind has the name.
        """
        known, (word, _, _, listing) = self.files(), self.value
        path = known.get(name, Path(name))
        if path.exists():
            return path
        for other in Shipped:
            if other is not self and name in other.files():
                raise ConfigError(
                    f"{name!r} is a {other.value[0]}, no {word}", f"Run it: consilium {_RUN[other]} {name}"
                )
        near = get_close_matches(Path(name).stem, known, 2)
        meant = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ConfigError(f"no {word} {name!r}: neither a file nor one that ships{meant}", f"List them: {listing}")


def completing(*kinds: Shipped) -> Callable[[str], list[str]]:
    """What a shell offers at TAB, for arguments that take names of these kinds."""

    def names(incomplete: str) -> list[str]:
        return [name for kind in kinds for name in kind.files() if name.startswith(incomplete)]

    return names


_RUN = {Shipped.SCENARIO: "run", Shipped.PAPER: "run", Shipped.STUDY: "study"}
