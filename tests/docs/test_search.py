"""What newcomers ask finds its page among the first three hits, in the site as it opens from a folder."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.docs.pages import ROOT
from tests.report.browser import IN_BROWSER, browse

pytestmark = [pytest.mark.proofs, IN_BROWSER]

QUESTIONS = {
    "client": {"glossary", "parties", "federated"},
    "differential privacy epsilon meaning": {"glossary", "for-privacy-officers"},
    "how many hospitals do I need": {"planning", "glossary"},
    "csv missing values": {"tables", "data", "ten_lines"},
    "federated learning": {"federated", "glossary"},
    "install without GPU": {"install"},
    "unlabeled public data": {"glossary", "data"},
    "random forest teachers": {"models"},
    "non-iid partition": {"glossary", "scenarios"},
    "firewall ports": {"for-it", "deploy"},
    "malicious client": {"threat-model", "attacks", "sharp-edges", "glossary"},
    "membership inference": {"attacks", "glossary"},
    "secure aggregation": {"secure-aggregation"},
    "backup": {"for-it", "install"},
    "getting started": {"tutorial-5", "index"},
    "tutorial": {"tutorial-5", "tutorial-15", "tutorial-60", "tutorial-own-table"},
    "how good is the student accuracy": {"results", "tutorial-15", "tutorial-5", "report"},
    "which epsilon should I choose": {"choosing_epsilon", "planning"},
    "different columns at hospitals": {"tables"},
    "use the trained model predict": {"published-student", "tutorial-5"},
    "exit code 13": {"exit-codes"},
    "compare with FedAvg": {"federated", "results", "study"},
}
HIT = re.compile(r'<a href="([^"]+)" class="md-search-result__link"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [str(Path(sys.executable).with_name("mkdocs")), "build", "--quiet", "-d", str(folder)], cwd=ROOT, check=True
    )
    return folder


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_finds_its_page(site: Path, question: str) -> None:
    for seconds in (20, 60):  # of the browser's own clock, until the index is read
        address = f"{(site / 'index.html').as_uri()}?q={quote(question)}"
        hits = HIT.findall(browse(f"--virtual-time-budget={seconds}000", "--dump-dom", address))
        if hits:
            break
    pages = list(dict.fromkeys(Path(hit.split("?")[0].split("#")[0]).stem for hit in hits))
    assert set(pages[:3]) & QUESTIONS[question], pages[:6]
