# %% [markdown]
# # A teacher of your own
#
# What a hospital trains is its own affair; others only see its votes. Two teachers are tried here in a simulation,
# one of them a torch module that is defined in this notebook.

# %%
from importlib.resources import files

import altair as alt
import numpy as np
import polars as pl
import torch
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

from consilium import ConsiliumError, Council
from consilium.models.torch_classifier import TorchClassifier

_ = alt.renderers.enable("svg")  # pictures that need no network

# %% [markdown]
# A few columns of the International Stroke Trial, at the hospitals with 150 patients or more:

# %%
with np.load(str(files("consilium.simulations.datasets") / "stroke.npz")) as file:
    names = ("AGE", "RSBP", "RDELAY", "RCONSC", "STYPE", "RDEF1", "RDEF4", "HOSPNUM", "OCCODE")
    raw = {name: file[name] for name in names}
frame = (
    pl.DataFrame(raw)
    .with_columns(
        pl.col("RCONSC", "STYPE", "RDEF1", "RDEF4").cast(pl.String),
        pl.col("HOSPNUM").cast(pl.String).alias("hospital"),
        pl.col("OCCODE")
        .is_in([1, 2])
        .replace_strict({True: "dead or dependent", False: "independent"})
        .alias("outcome"),
    )
    .drop("HOSPNUM", "OCCODE")
)
frame = frame.filter(pl.len().over("hospital") >= 150)
print(f"{frame.height} patients of {frame['hospital'].n_unique()} hospitals")

# %% [markdown]
# ## A pipeline
#
# Any classifier with the methods of scikit-learn will do, alone or at the end of a pipeline. Each hospital has four
# teachers here, on disjoint shards of its rows, and the promise is about one patient's row.

# %%
settings = {
    "epsilon": 6.0,
    "unit": "record",
    "teachers_per_party": 3,
    "mechanism": {"name": "histogram"},
    "queries": 150,
    "hand_labels": "none",
    "random_state": 0,
    "noise": "seeded",  # so that this notebook shows the same each time; it protects nobody
}
pipeline = make_pipeline(PolynomialFeatures(degree=2, interaction_only=True), LogisticRegression(C=0.01))
runs = {"pipeline": Council(teacher=pipeline, **settings).fit(frame, "outcome", owners="hospital").run_}

# %% [markdown]
# Rows come to a teacher standardised by public statistics, and by default without gaps. In a hospital's own file
# `missing = "keep"` gives it NaN instead. What a teacher does decides nothing about who takes part.
#
# ## A torch module
#
# A factory takes the number of inputs and of classes and gives a module from rows to logits; how it is trained is
# said beside it. It is seeded and runs on one thread.


# %%
class Net(torch.nn.Module):
    """Rows of `inputs` numbers to one logit for each class."""

    def __init__(self, inputs: int, classes: int, width: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(inputs, width), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(width, classes)
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Logits float32 (rows, classes)."""
        return self.layers(rows)


network = TorchClassifier(Net, parameters={"width": 8}, epochs=10, learning_rate=0.01)
runs["torch"] = Council(teacher=network, **settings).fit(frame, "outcome", owners="hospital").run_

# %% [markdown]
# ## What came of it

# %%
rows = [(name, "one teacher (mean of hospitals)", float(run.by_party["auc"].mean())) for name, run in runs.items()] + [
    (name, "student", run.summary["student"]["auc"]) for name, run in runs.items()
]
found = pl.DataFrame(rows, schema=["teacher", "what", "auc"], orient="row")
for teacher, what, auc in found.iter_rows():
    print(f"{teacher:<9} {what:<32} AUC {auc:.3f}")
promise = runs["torch"].privacy
print(f"promise of each: epsilon {promise.epsilon:.3f} at delta {promise.delta}, unit: {promise.relation}")

# %%
alt.Chart(found, title="AUC on the public test rows", width=260, height=110).mark_point(filled=True, size=80).encode(
    x=alt.X("auc:Q", title="AUC", scale=alt.Scale(zero=False)),
    y=alt.Y("teacher:N", title=None),
    color=alt.Color("what:N", title=None, legend=alt.Legend(orient="bottom")),
)

# %% [markdown]
# The guarantee is the same for both: it is about votes, whatever casts them. Few votes need a large epsilon
# ([choosing epsilon](choosing_epsilon.ipynb)). The quality of a hospital's own teacher is a private fact, which only
# a simulation shows. So **compare teachers on public or simulated rows**, as here.
#
# ## What is refused
#
# Some mistakes are told before anything is trained:


# %%
def refusal(teacher: object) -> str:
    """What `fit` says of a teacher that cannot be used."""
    try:
        Council(teacher=teacher, **settings).fit(frame, "outcome", owners="hospital")
    except ConsiliumError as error:
        return f"{error.what}. {error.action}"
    return "nothing"


print("a bare module: ", refusal(Net(3, 2, 8)))
print("a regression:  ", refusal(LinearRegression()))
print("no such kind:  ", refusal("oracle"))

# %% [markdown]
# ## At a real hospital
#
# Only the hospital's own file may name code that runs there. In `party.toml` the network above would be
#
# ```toml
# [teacher]
# model = "torch"
# factory = "our_models.nets:Net"     # importable at this hospital
# parameters = { width = 8 }
# epochs = 10
# learning_rate = 0.01
# ```
#
# and the pipeline `model = "estimator"` with a `factory` that returns it. `consilium party dry-run` tries it on that
# machine alone. All kinds: [models](../models.md).
