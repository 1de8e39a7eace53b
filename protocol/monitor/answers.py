"""What is answered to a request for a path: by whom and from where it was asked decides first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from consilium.protocol.strict_json import dumps

JSON, HTML, TEXT = "application/json", "text/html; charset=utf-8", "text/plain; charset=utf-8"
METHODS = ("GET", "HEAD")
NOTHING_LOADED = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""A Content-Security-Policy under which a page loads and runs nothing, submits nothing and is in nobody's frame."""
SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True)
class Answer:
    """Status, media type, body. policy: its Content-Security-Policy."""

    status: int
    media: str
    body: bytes
    policy: str = NOTHING_LOADED
    headers: Mapping[str, str] = field(default_factory=dict)

    def all_headers(self) -> dict[str, str]:
        """What is sent before the body."""
        return {
            "Content-Type": self.media,
            "Content-Length": str(len(self.body)),
            "Content-Security-Policy": self.policy,
            **SAFE,
            **self.headers,
        }


Page = Callable[[], Answer]
"""Makes the answer for a path."""


def as_json(value: object, status: int = 200) -> Answer:
    """Plain values as JSON."""
    return Answer(status, JSON, dumps(value).encode() + b"\n")


def refused(status: int, why: str, **headers: str) -> Answer:
    """A short text; nothing of the request is in it."""
    return Answer(status, TEXT, f"{why}\n".encode(), headers=headers)


def answer(
    method: str, target: str, headers: Mapping[str, str], names: frozenset[str], pages: Mapping[str, Page]
) -> Answer:
    """The answer to one request.

    Parameters
    ----------
    target : path, perhaps with a query, which is ignored.
    headers : by name in lower case.
    names : Host headers that are this node's own, lower case. Whoever makes a browser come here under another name, by
        a DNS entry of its own, could read the answer (DNS rebinding); pages of other origins are refused as well.
    """
    host = headers.get("host", "").lower()
    if host not in names:
        return refused(421, "This node is not asked under that name: add it to hosts in monitor.toml.")
    if method not in METHODS:
        return refused(405, "Nothing can be changed here: GET and HEAD only.", Allow=", ".join(METHODS))
    if _of_another_origin(headers, host):
        return refused(403, "Pages of other origins may not look here.")
    page = pages.get(target.partition("?")[0])
    if page is None:
        return refused(404, f"There is {', '.join(sorted(pages))}.")
    try:
        return page()
    except Exception as error:  # its text may hold anything
        return refused(500, f"This cannot be shown now: {type(error).__name__}.")


def _of_another_origin(headers: Mapping[str, str], host: str) -> bool:
    """Whether a page of another origin made a browser ask; following a link to here is no such thing."""
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return True
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not followed
