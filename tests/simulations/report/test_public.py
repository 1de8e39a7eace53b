"""The public version of the report: nothing private is in it, and what is left can be judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from consilium.accounting.guarantees import Kind
from consilium.simulations.report.build import render
from tests.simulations.report import cases as made
from tests.simulations.report.cases import Page, figured, guarantee, run

pytestmark = pytest.mark.slow


class TestPublic:
    def test_holds_none_of_the_secrets_that_the_full_one_shows(self) -> None:
        data = figured(run())
        full, public = render(data), render(data, public=True)
        rounded = ["0.314", f"{made.SECRET_AUC:.3f}", f"{made.SECRET_ACCURACY:.3f}", f"{made.SECRET_ROWS:,}"]
        rounded += [f"{made.SECRET_SHARE:.0%}<", f"{made.SECRET_GAIN:.3f}", f"{made.SECRET_OTHER:.3f}"]
        names = [item.party for item in data.quality] + [item.party for item in data.left_out]
        for secret in [*rounded, *names, made.SECRET_REASON, "do not publish"]:
            assert secret in full, secret
            assert secret not in public, secret
        for name in ("consensus", "parties-by-size", "at-home", "by-epsilon"):
            assert f'id="{name}"' in full
            assert f'id="{name}"' not in public

    def test_says_what_it_leaves_out(self) -> None:
        text = Page(render(run(), public=True)).text
        for what in (
            "data-dependent epsilon",
            "consensus of the votes",
            "models to compare with that use private rows",
            "by name, size",
        ):
            assert what in text
        assert "Not shown, nor how many" in text and "13 hospitals might have taken part." in " ".join(text.split())
        assert "at the stage" not in text

    def test_keeps_yardsticks_that_are_public(self) -> None:
        """Without one nobody can judge the student: the commonest public class, and labels by hand on public rows."""
        data = figured(run())
        page = render(data, public=True)
        tested = data.open_figures["test"]
        most = max(tested, key=tested.__getitem__)
        text = " ".join(Page(page).text.split())
        assert f"always “{most}”" in text and f"{tested[most] / sum(tested.values()):.3f} (" in text
        assert "17 labels by hand" in text
        for name in ("models-chart", "roc", "calibration", "by-labels"):
            assert f'id="{name}"' in page
        for name in ("confusion", "label-confusion", "recall"):
            assert f'id="{name}"' in page
        assert "not covered by the guarantee" not in page

    def test_publishes_the_promise_and_not_what_the_counts_came_to(self) -> None:
        full, public = render(run()), render(run(), public=True)
        assert "0.954" in full
        assert "chosen after the fact: publish the guarantee" in full
        assert "0.954" not in public
        promise = {**run().guarantees, "spent": guarantee(Kind.WORST_CASE, 0.95312)}
        assert "0.954" in render(replace(run(), guarantees=promise), public=True)  # the control: as it was marked

    def test_leaves_out_what_is_not_publishable_whatever_it_is_called(self) -> None:
        data = run()
        secret = guarantee(Kind.DATA_DEPENDENT, 0.2718)
        data = replace(data, guarantees={**data.guarantees, "estimate": secret})
        assert "0.272" in render(data)
        assert "0.272" not in render(data, public=True)
