"""The house's docstrings as Markdown, for the API reference.

They are numpydoc without types, which the signature has: underlined sections, in them ``name : meaning``; and doctests
among the sentences. Markdown would read doctests as quotations and run the names together.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

SECTIONS = ("Parameters", "Fields", "Returns", "Raises")
DESCRIBED = re.compile(r"(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*) : (?P<meaning>\S.*)")
"""`delta : probability in (0, 1).`, at the beginning of a line."""
COLUMNS = re.compile(r"\S {3,}\S")
"""A line of a table that is set with spaces."""
NEXT_ONE = re.compile(r"(?<=\.) (?=\w+(?:, \w+)* : \S)")
"""Where a second description begins in the same line."""


class HouseStyle(griffe.Extension):
    """Rewrites every docstring as it is collected."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """Sections in bold, a list of what is described as ``name : meaning``, and doctests in fences.

    >>> print(as_markdown("The double.\\n\\nRaises\\n------\\nError : x is none,\\n    or a text."))
    The double.
    <BLANKLINE>
    **Raises**
    <BLANKLINE>
    - `Error`: x is none,
      or a text.
    """
    for name in SECTIONS:
        text = re.sub(rf"(?m)^{name}\n-+$", f"**{name}**\n", text)
    return "\n\n".join(_paragraph(paragraph) for paragraph in re.split(r"\n\s*\n", text))


def _paragraph(text: str) -> str:
    """One paragraph, which may end in a doctest."""
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith(">>>")), len(lines))
    prose = _prose([part for line in lines[:start] for part in NEXT_ONE.split(line)])
    doctest = "\n".join(["```pycon", *lines[start:], "```"]) if start < len(lines) else ""
    return "\n\n".join(part for part in (prose, doctest) if part)


def _prose(lines: list[str]) -> str:
    """Sentences, with a list from the first ``name : meaning`` on; columns stay columns."""
    if any(COLUMNS.search(line) for line in lines):
        return "\n".join(["```text", *lines, "```"])
    out: list[str] = []
    listed = False
    for line in lines:
        line = _plain(line)
        found = DESCRIBED.match(line)
        if found:
            if not listed and out:
                out.append("")
            names = ", ".join(f"`{name}`" for name in found["names"].split(", "))
            out.append(f"- {names}: {found['meaning']}")
            listed = True
        else:
            out.append(f"  {line.strip()}" if listed else line)
    return "\n".join(out)


def _plain(line: str) -> str:
    """A sentence in which brackets are brackets and no link, and ``<`` is no tag, but for what is code."""
    parts = re.split(r"(`+[^`]*`+)", line)
    parts[::2] = [part.replace("[", "\\[").replace("<", "&lt;") for part in parts[::2]]
    return "".join(parts)
