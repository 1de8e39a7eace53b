"""Scenarios and studies that come with the package, and files of one's own: which is meant by a name."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any

from consilium.protocol.errors import ConfigError
from consilium.protocol.output import wrapped
from consilium.report.progress import about

DEFAULT = "stroke"  # the scenario of `consilium run`


class Shipped(Enum):
    """What comes with the package: its word, the package and folder of its files, and what lists them."""

    SCENARIO = ("scenario", "consilium.simulations.scenarios", "", "consilium scenarios")
    PAPER = ("paper", "consilium.simulations.papers", "", "consilium scenarios")
    STUDY = ("study", "consilium.simulations.study", "shipped", "consilium study list")

    def files(self) -> dict[str, Path]:
        _, package, folder, _ = self.value
        return {path.stem: path for path in sorted((Path(str(files(package))) / folder).glob("*.toml"))}

    def path(self, name: str) -> Path:
        """Of the one that ships under this name, or of a file. Raises ConfigError: neither is there; with the nearest
        names, and where another kind has the name."""
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
    return lambda incomplete: [name for kind in kinds for name in kind.files() if name.startswith(incomplete)]


_RUN = {Shipped.SCENARIO: "run", Shipped.PAPER: "run", Shipped.STUDY: "study"}
DATA = "data.path"  # the key that names the folder of data sets which do not ship


def menu() -> dict[str, list[dict[str, Any]]]:
    """What `consilium scenarios` offers: the default first, then scenarios that need no data; and papers. seconds: None
    where nobody measured them. Nothing is validated, so that the list is there at once."""
    from consilium.simulations.datasets.base import FOLDER_SETS

    scenarios, papers = [], []
    for name, path in Shipped.SCENARIO.files().items():
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        happens, needs = table.get("menu") or table["federation"]["name"], table["data"]["set"] in FOLDER_SETS
        entry = {"name": name, "default": name == DEFAULT, "happens": happens, "seconds": table.get("seconds")}
        scenarios.append({**entry, "needs": DATA if needs else None})
    for name, path in Shipped.PAPER.files().items():
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        papers.append({"name": name, "happens": table["title"], "seconds": table["seconds"], "needs": DATA})
    scenarios.sort(key=lambda entry: (not entry["default"], entry["needs"] is not None, entry["name"]))
    return {"scenarios": scenarios, "papers": papers}


def menu_lines(scenarios: list[dict[str, Any]], papers: list[dict[str, Any]]) -> Iterator[str]:
    """For a terminal: each name, what happens, how long it takes and what it needs."""
    indent = max(len(entry["name"]) + 10 * bool(entry.get("default")) for entry in (*scenarios, *papers)) + 2
    yield "Run one with: consilium run NAME"
    for heading, entries in (("", scenarios), ("Papers: their tables, beside ours", papers)):
        yield f"\n{heading}" if heading else ""
        for entry in entries:
            time = about(entry["seconds"]) if entry["seconds"] else "time not measured"
            text = f"{entry['happens']} ({time}{', needs data' if entry['needs'] else ''})"
            name = f"{entry['name']}{' (default)' if entry.get('default') else ''}"
            yield wrapped(text, name.ljust(indent), " " * indent)
    yield ""
    yield wrapped(
        f"Data: files that do not come with Consilium. Name their folder with --set {DATA}=FOLDER;"
        " docs/scenarios.md says where to get them."
    )
