# %% [markdown]
# # What a real division does
#
# Federations are studied on data that somebody dealt out: by lot, or skewed by a Dirichlet distribution. Real hospitals
# differ in more than that. `Study` compares a real division with artificial ones of the same patients, method by method
# and seed by seed. Here: the International Stroke Trial, which comes with the package, in its larger hospitals.

# %%
import altair as alt
import polars as pl

from consilium import Study

_ = alt.renderers.enable("svg")  # pictures that need no network
_ = pl.Config.set_tbl_rows(20)

study = Study(
    "stroke",
    {
        "division": {
            "natural": {},
            "shuffled": {"data.partition": "shuffled"},
            "matched": {"data.partition": "matched"},
            "skewed": {"data.partition": "dirichlet", "data.alpha": 0.1},
        }
    },
    ["local", "pooled", "plurality", "pate"],
    seeds=3,
    data__least_rows=60,
    federation__minimum_parties=20,
    federation__mechanism={"name": "histogram"},
    federation__privacy__epsilon=3.0,
)
study

# %% [markdown]
# *Natural*: patients where they lay. *Shuffled*: hospitals keep their sizes, patients are dealt by lot. *Matched*:
# dealt so that hospitals differ in their outcomes as much as the real ones, and in nothing else. *Skewed*: much more.
# Teachers are trained once for each division and seed; every further mechanism or budget costs a moment.

# %%
results = study.run(workers=2, cache="steps")
results.table("auc")

# %% [markdown]
# Every figure is a row of one table. How far are the hospitals from each other, and how much of that is the chance of
# small numbers?

# %%
distances = results.means("hellinger_mean", "hellinger_mean_floor", "mmd2_mean", "c2st_auc_mean")
distances.pivot(on="metric", index="division", values="mean")

# %% [markdown]
# `matched` has the natural distance of the labels, by construction, and not that of the features: `mmd2`, and the AUC
# of a classifier that tells one hospital from the rest, are those of chance there, and far from it for natural
# hospitals. An artificial division that is equally far by its labels is not equally far.
#
# ## What was not chance
#
# Differences are paired by seed and corrected for their number. Three seeds are few; the sentences say so.

# %%
for sentence in results.findings():
    print("-", sentence)

# %% [markdown]
# ## Who gains at home
#
# A fifth of every hospital's patients were held out, and no method learnt from them. Below 0 a hospital is better off
# with its own model.

# %%
home = results.frame.filter((pl.col("scope") == "party") & (pl.col("metric") == "brier"))
own = home.filter(pl.col("method") == "local").select("division", "seed", "name", alone="value")
gain = (
    home.filter(pl.col("method") == "pate")
    .join(own, on=["division", "seed", "name"])
    .with_columns(gain=pl.col("alone") - pl.col("value"))
)
alt.Chart(gain, title="Gain of each hospital over its own model").mark_tick(opacity=0.4).encode(
    x=alt.X("gain", title="Brier score, alone less PATE"), y=alt.Y("division", title=None, sort=results.axes)
).properties(width=500)

# %% [markdown]
# `results.report` is the page with all of it, pictures to take along, and how it was made. A file says the same as the
# call above, and `consilium study FILE` runs it: see [designing a study](../study.md).
