"""What `consilium scenarios` offers. Nothing is validated, so that the list is there at once."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consilium.protocol.output import wrapped
from consilium.report.progress import about
from consilium.simulations.shipped import DEFAULT, Shipped

DATA = "data.path"
"""The key that names the folder of data sets which do not ship."""


def scenario_entries() -> list[dict[str, Any]]:
    """The default first, then those that need no data. seconds: None where nobody measured them."""
    entries = [_scenario(name, path) for name, path in Shipped.SCENARIO.files().items()]
    return sorted(entries, key=lambda entry: (not entry["default"], entry["needs"] is not None, entry["name"]))


def paper_entries() -> list[dict[str, Any]]:
    """Papers whose figures are made again, all rows and seeds of each."""
    return [_paper(name, path) for name, path in Shipped.PAPER.files().items()]


def lines(scenarios: list[dict[str, Any]], papers: list[dict[str, Any]]) -> Iterator[str]:
    """For a terminal: each name, what happens, how long it takes and what it needs."""
    names = {entry["name"]: f"{entry['name']}{' (default)' if entry.get('default') else ''}" for entry in scenarios}
    names |= {entry["name"]: entry["name"] for entry in papers}
    indent = max(map(len, names.values())) + 2
    yield "Run one with: consilium run NAME"
    for heading, entries in (("", scenarios), ("Papers: their tables, beside ours", papers)):
        yield f"\n{heading}" if heading else ""
        for entry in entries:
            text = f"{entry['happens']} ({_costs(entry)})"
            yield wrapped(text, names[entry["name"]].ljust(indent), " " * indent)
    if any(entry["needs"] for entry in (*scenarios, *papers)):
        yield ""
        yield wrapped(
            f"Data: files that do not come with Consilium. Name their folder with --set {DATA}=FOLDER;"
            " docs/scenarios.md says where to get them."
        )


def _costs(entry: dict[str, Any]) -> str:
    time = about(entry["seconds"]) if entry["seconds"] else "time not measured"
    return f"{time}{', needs data' if entry['needs'] else ''}"


def _scenario(name: str, path: Path) -> dict[str, Any]:
    from consilium.simulations.datasets.spec import FOLDER_SETS

    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        "name": name,
        "default": name == DEFAULT,
        "happens": table.get("menu") or table["federation"]["name"],
        "seconds": table.get("seconds"),
        "needs": DATA if table["data"]["set"] in FOLDER_SETS else None,
    }


def _paper(name: str, path: Path) -> dict[str, Any]:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return {"name": name, "happens": table["title"], "seconds": table["seconds"], "needs": DATA}
