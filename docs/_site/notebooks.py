"""The notebooks as pages of the site: prose, code and what came out, as Markdown in the site's own style.

Each page is made of docs/notebooks/NAME.ipynb as it was committed; nothing is executed. Pictures become files beside
it. The notebook itself is copied, and linked from its page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"
PICTURE = "image/svg+xml"
TITLE = re.compile(r"aria-label=\"Title text '([^']*)'\"")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
STYLE = re.compile(r"<style.*?</style>", re.DOTALL)
OTHER = re.compile(r"\]\((\w+)\.ipynb\)")
"""A link to another notebook, which is a page here."""
OF_FRAMES = re.compile(r"<table border=\"1\" class=\"dataframe\">")


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook, and its pictures."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        text, pictures = page_of(path)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    return files


def page_of(path: Path) -> tuple[str, dict[str, str]]:
    """The page of one notebook in Markdown, and its pictures (SVG) by their file names."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts: list[str] = []
    pictures: dict[str, str] = {}
    heading = path.stem
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = [heading, *HEADING.findall(source)][-1]
            parts.append(OTHER.sub(r"](\g<1>.md)", source))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = {kind: "".join(text) for kind, text in output.get("data", {}).items()}
            if PICTURE in data:
                name = f"{path.stem}-{len(pictures) + 1}.svg"
                pictures[name] = data[PICTURE]
                parts.append(f"![{_described(data[PICTURE], heading)}]({name})")
            elif "text/html" in data:
                parts.append(f"<div>{OF_FRAMES.sub('<table>', STYLE.sub('', data['text/html']))}</div>")
            else:
                parts.append(
                    f"```text\n{(''.join(output.get('text', '')) or data.get('text/plain', '')).rstrip()}\n```"
                )
    title, _, rest = parts[0].partition("\n\n")
    told = f"[This notebook]({path.name}) is the script `examples/{path.stem}.py` of the repository, run as it stands."
    parts[0] = f"{title}\n\n{told}\n\n{rest}"
    return "\n\n".join(parts) + "\n", pictures


def _described(picture: str, heading: str) -> str:
    """What a chart shows, for whoever cannot see it: its title, or what it stands under."""
    found = TITLE.search(picture)
    return found[1] if found else f"Chart: {heading}"
