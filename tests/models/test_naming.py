"""From the name of a model to an untrained estimator."""

from __future__ import annotations

import pytest

from consilium.models.naming import UnusableModel, estimator_of, resolve, seeded


@pytest.mark.parametrize(
    ("name", "said"),
    [("absent_module:Own", "there is no module absent_module"), ("sklearn.svm:Absent", "AttributeError"),
     ("math:pi", "no callable but float")],
)  # fmt: skip
def test_a_name_that_cannot_be_used(name: str, said: str) -> None:
    with pytest.raises(UnusableModel, match=said):
        resolve(name)


def test_the_seed_and_one_thread_reach_what_is_within_a_pipeline() -> None:
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline

    built = seeded(make_pipeline(BaggingClassifier(RandomForestClassifier(n_jobs=2))), 7).get_params()
    found = {key.rpartition("__")[2] + str(key.count("__")): value for key, value in built.items() if "jobs" in key}
    assert found == {"n_jobs1": 1, "n_jobs2": 2}
    assert {value for key, value in built.items() if key.endswith("random_state")} == {7}
    assert seeded(object(), 7).__class__ is object
    assert estimator_of("sklearn.svm.SVC", {"random_state": 3}, 7).random_state == 3
