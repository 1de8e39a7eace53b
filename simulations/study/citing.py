"""What somebody needs to make a study again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consilium.simulations.study.results import read_told

_KEYS = ("name", "title", "spec_digest", "command", "seeds", "home_share", "methods", "data", "versions", "created")


def citation(folder: Path) -> dict[str, Any]:
    """Of a finished study. Raises PathError, DataError."""
    told = read_told(folder)
    return {"status": told["status"], **{key: told[key] for key in _KEYS if key in told}}


def citation_lines(cited: dict[str, Any]) -> Iterator[str]:
    """For people."""
    if cited["status"] != "complete":
        yield "the study is not finished: its results are not there yet"
        return
    yield f"{cited['title']} (study {cited['name']}), {cited['created']}"
    yield f"specification  sha256 {cited['spec_digest']}"
    yield f"command        {cited['command'] or 'from Python'}"
    yield f"seeds          {', '.join(map(str, cited['seeds']))}; {cited['home_share']:g} of each party's rows held out"
    yield f"methods        {', '.join(each['label'] for each in cited['methods'])}"
    for data in cited["data"]:
        yield f"data           {data['set']}: {data['title']}. {data['attribution']}".rstrip(". ")
        yield f"               sha256 {data['sha256']}"
    yield f"versions       {', '.join(f'{name} {version}' for name, version in cited['versions'].items())}"
