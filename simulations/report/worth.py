"""What a student is worth in labels by hand, in words and rows: for the report and for a terminal."""

from __future__ import annotations

from typing import Any

from consilium.simulations.report.wording import many, share_text

METRIC_NAMES = {"auc": "AUC", "accuracy": "accuracy"}


def worth_sentence(worth: dict[str, Any], epsilon: str, release: str) -> str:
    """One or two sentences for somebody who knows what it takes to label a case.

    epsilon: as text. release: what the student got for a query, as it is counted.
    """
    released, metric = worth["released"], worth["metric"]
    count, reached = released["labels"], f"{METRIC_NAMES[metric]} is {share_text(released[metric])}"
    cost = worth.get("label_cost", "")  # a run of 0.9 does not say it
    can_be_had = "" if cost else ", if labels can be had by hand"
    takes = f"; one such label takes {cost}" if cost else ""
    return (
        f"This student is worth {_in_labels(worth)}; {many(count, release)} {'was' if count == 1 else 'were'} released"
        f" at epsilon {epsilon}. With {many(count, 'case')} labelled by hand instead{can_be_had}, {reached}{takes}."
    )


def worth_explained(worth: dict[str, Any]) -> str:
    """How the number was found."""
    draws, metric = worth["draws"], METRIC_NAMES[worth["metric"]]
    return (
        f"Worth in hand-labelled cases: how many of the {worth['public_rows']:,} public cases, drawn by lot and given"
        f" their true label, reach the student’s {metric} on the test cases: the mean of up to {draws} draws, by the"
        " student’s own trainer or by ridge regression, whichever does better there (a trainer that takes long is not"
        f" searched with). In parentheses the {worth['level']:.0%} interval over draws of labels and of test cases. It"
        " takes public rows, their true labels and the published student, so the guarantee covers it."
    )


def hand_label_rows(worth: dict[str, Any] | None) -> list[tuple[str, dict[str, Any]]]:
    """Labels and metrics of what as many labels by hand give, as were released and as were asked for."""
    if worth is None:
        return []
    found = {point["labels"]: point for point in (worth["released"], worth["asked"])}
    return [(f"{many(count, 'label')} by hand", point) for count, point in found.items()]


def _in_labels(worth: dict[str, Any]) -> str:
    """
    >>> block = {"fewest": 5, "most": 900, "public_rows": 900, "hand_labels": 123, "low": 81, "high": 204}
    >>> _in_labels(block)
    'about 120 hand-labelled cases (81 to 200)'
    >>> _in_labels({**block, "hand_labels": None, "high": None})
    'more than all 900 public cases labelled by hand (81 at least)'
    >>> _in_labels({**block, "hand_labels": 0, "low": 0})
    'no hand-labelled cases: 5 do as well (0 to 200)'
    """
    labels, low, high = worth["hand_labels"], worth["low"], worth["high"]
    most = f"{worth['most']:,}"
    if labels is None:
        every = f"all {most} public cases" if worth["most"] == worth["public_rows"] else f"the {most} that were tried"
        least = "" if low is None else f" ({_about(low)} at least)"
        return f"more than {every} labelled by hand{least}"
    ends = f"({_about(low or 0)} to {f'more than {most}' if high is None else _about(high)})"
    if labels == 0:
        return f"no hand-labelled cases: {worth['fewest']} do as well {ends}"
    return f"about {_about(labels)} hand-labelled cases {ends}"


def _about(count: int) -> str:
    """Two digits say all that is known.

    >>> _about(1234), _about(57), _about(0)
    ('1,200', '57', '0')
    """
    return f"{int(float(f'{count:.2g}')):,}"
