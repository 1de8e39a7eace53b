"""The page: strangers' texts are texts, nothing is loaded or run, and a real browser can show it anywhere."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from consilium.coordinator.deploy.console import CertificateLine, ConsoleView, PartyLine, ProcessLine, page, policy
from consilium.coordinator.run_state import Trouble
from consilium.node.log import MonitorSettings
from consilium.node.monitor import Answer, MonitorPort
from tests.deploy.kits import free_ports
from tests.report.browser import IN_BROWSER, browse, measure

HOSTILE = "</style></title><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"


def view(text: str = "Four hospitals", parties: int = 4) -> ConsoleView:
    """A page with something in every part, and one text in every place that somebody else may write."""
    return ConsoleView(
        at="2026-11-23T12:00:00+00:00", federation=text, version="0.6.0", flower_version="1.41.0", running=True,
        stage=f"secure sum: {text}", since="2026-11-23T11:59:00+00:00", kind_of_stage="secure sum", done=2, total=3,
        parties=[PartyLine(f"{text} {number}", "refused", f"left out: {text}") for number in range(parties)],
        run="0123456789ab", next="ba9876543210", rows_open=37, queries_asked=3, queries_most=40,
        epsilon_so_far=1.25, epsilon_guaranteed=4.0, delta=1e-5, unit="record",
        troubles=[Trouble(text, kind, text, text) for kind in ("left-out", "failed", "error")], warnings=[text],
        certificates=[
            CertificateLine("server.crt", "2026-12-01", 722, 8, "soon"),
            CertificateLine("ca.crt", text, None, None, "over"),
        ],
        processes=[ProcessLine("superlink", 4, 412.3, 17.5, 96, 2)],
    )  # fmt: skip


class Seen(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_strangers_texts_are_texts() -> None:
    html = page(view(HOSTILE)).body.decode()
    plain = Seen(page(view()).body.decode()).tags
    assert [tag for tag, _ in Seen(html).tags] == [tag for tag, _ in plain]
    assert html.count("&lt;script&gt;") > 10


def test_nothing_is_loaded_run_or_submitted() -> None:
    answer = page(view())
    html = answer.body.decode()
    tags = Seen(html).tags
    assert not {"script", "img", "link", "iframe", "object", "form", "input", "button", "base"} & {
        tag for tag, _ in tags
    }
    attributes = {name for _, found in tags for name in found}
    assert not {"style", "src", "srcset", "action"} & attributes
    assert not [name for name in attributes if name.startswith("on")]
    assert {found["href"] for tag, found in tags if tag == "a"} == {"/status.json", "/metrics", "/healthz", "/readyz"}
    assert "url(" not in html and "@import" not in html and "http://" not in html and "https://" not in html
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert answer.policy == policy()
    assert policy().split("; ") == [
        "default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        f"style-src 'sha256-{digest}'",
    ]  # fmt: skip


def test_a_federation_that_has_not_begun() -> None:
    html = page(ConsoleView("2026-11-23T12:00:00+00:00", "F", "0", "1")).body.decode()
    assert "Parties – none" in html
    assert "Nothing." in html
    assert "not running" in html


@IN_BROWSER
@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, False)])
def test_it_can_be_read_on_a_telephone_and_in_the_dark(width: int, dark: bool, tmp_path: Path) -> None:
    """Widths in pixels; 4.5: contrast of text by WCAG 2.2, level AA."""
    long = view("St.-Elisabeth-Krankenhaus-und-Poliklinik-" * 3)
    seen = measure(page(long).body.decode(), width, dark, tmp_path)
    assert (seen.inner, seen.width) == (width, width)
    assert seen.outside == seen.clipped == []
    assert len(seen.texts) > 50
    assert [item for item in seen.texts if item["size"] < 13] == []
    assert [item for item in seen.texts if item["contrast"] < 4.5] == []


@IN_BROWSER
@pytest.mark.slow
def test_a_browser_obeys_the_policy(tmp_path: Path) -> None:
    """Served as it is served to people: its style holds, a script that got into it does not run."""
    planted = b"<script>document.documentElement.id = 'ran'</script></body>"
    made = page(view(HOSTILE))
    with_script = Answer(200, made.media, made.body.replace(b"</body>", planted), made.policy)
    without_rule = re.sub(rb'<meta http-equiv="Content-Security-Policy"[^>]*>', b"", with_script.body)
    control = Answer(200, made.media, without_rule, "default-src * 'unsafe-inline'")
    port = free_ports(1)[0]
    pages = {"/": lambda: with_script, "/control": lambda: control}
    shot = tmp_path / "console.png"
    with MonitorPort(MonitorSettings(port=port), None, pages, lambda *_: None):
        guarded = browse(f"--screenshot={shot}", "--dump-dom", f"http://127.0.0.1:{port}/")
        loose = browse("--dump-dom", f"http://127.0.0.1:{port}/control")
    assert '<html lang="en" id="ran">' in loose  # the control: it would have run
    assert '<html lang="en">' in guarded
    assert "taken" not in re.findall(r"<title>(.*?)</title>", guarded, re.DOTALL)[0].split("&lt;")[0]
    assert shot.stat().st_size > 10_000
