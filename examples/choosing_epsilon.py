# %% [markdown]
# # Choosing epsilon
#
# Epsilon is chosen before anything is asked. This notebook says what a value means as odds, how much noise it takes,
# what a student can still learn, and how to choose without looking at private votes.

# %%
import json
import subprocess
import sys
from importlib.resources import files

import altair as alt
import numpy as np
import polars as pl
from sklearn.linear_model import BayesianRidge, LogisticRegression
from sklearn.metrics import roc_auc_score

from consilium import accounting

_ = alt.renderers.enable("svg")  # pictures that need no network

# %% [markdown]
# ## What it means, as odds
#
# Somebody wants to know one thing about one hospital, and holds yes for as likely as no. Whatever else is known, the
# release moves these odds by a factor of at most e to the power of epsilon, but for a chance of about delta.

# %%
epsilons = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
surest = {epsilon: np.exp(epsilon) / (1 + np.exp(epsilon)) for epsilon in epsilons}
for epsilon, sure in surest.items():
    print(f"epsilon {epsilon:<4}  odds at most {np.exp(epsilon):8.2f} to 1: from 50 % sure to at most {sure:.2%}")

# %%
curve = pl.DataFrame({"epsilon": np.linspace(0, 5, 101)}).with_columns(
    sure=100 * pl.col("epsilon").exp() / (1 + pl.col("epsilon").exp())
)
alt.Chart(curve, title="How sure anybody can get who was 50 % sure", width=330, height=180).mark_line().encode(
    x=alt.X("epsilon:Q", title="epsilon"), y=alt.Y("sure:Q", title="%", scale=alt.Scale(domain=[50, 100]))
)

# %% [markdown]
# These are limits for the best attacker. At epsilon 8 they allow near certainty, and what then protects is luck.
# Delta should be far below one over the number of those who are protected.
#
# ## How much noise
#
# `calibrate` finds the least noise that keeps an epsilon, whatever the votes are. Here whole noisy histograms are
# released, for 300 public cases.

# %%
asked = 300
noise = {
    epsilon: accounting.calibrate("Histogram(sigma=1)", epsilon, delta=1e-5, asked=asked).value("sigma")
    for epsilon in epsilons
}
for epsilon, sigma in noise.items():
    print(f"epsilon {epsilon:<4}  noise on each count: ±{sigma:.1f}")

# %% [markdown]
# A count is at most the number of teachers. With 20 hospitals a noise of ±100 drowns everything; with 371 the student
# averages over many cases. **More hospitals lower the price; more queries alone do not**, since the noise grows with
# the root of their number:

# %%
for queries in (75, 300, 1200):
    sigma = accounting.calibrate("Histogram(sigma=1)", 1.0, delta=1e-5, asked=queries).value("sigma")
    print(f"{queries:>5} queries at epsilon 1: ±{sigma:6.1f}, averaged over all: ±{sigma / np.sqrt(queries):.2f}")

# %% [markdown]
# ## What a student still learns
#
# The International Stroke Trial: hospitals train teachers, those vote on public cases ([first
# principles](first_principles.ipynb)). A teacher votes for whom it ranks highest, in the share that is publicly
# known: six of ten patients were dead or dependent (Lancet 1997; 349: 1569).

# %%
with np.load(str(files("consilium.simulations.datasets") / "stroke.npz")) as file:
    raw = {name: file[name] for name in file.files if name != "vocabulary"}
numbers, outcome, hospital = ("RDELAY", "AGE", "RSBP"), raw.pop("OCCODE"), raw.pop("HOSPNUM")
columns = [raw[name].astype(float) for name in numbers]
columns += [
    (values == code).astype(float)
    for name, values in raw.items()
    if name not in numbers
    for code in range(1, values.max() + 1)
]
x = np.stack(columns, axis=1)
y = np.isin(outcome, (1, 2)).astype(int)

generator = np.random.default_rng(0)
hospitals = np.unique(hospital)
held_out = generator.choice(hospitals, size=len(hospitals) // 5, replace=False)
pool, test = np.array_split(generator.permutation(np.flatnonzero(np.isin(hospital, held_out))), 2)
x = (x - x[pool].mean(axis=0)) / (x[pool].std(axis=0) + 1e-9)
parties = np.setdiff1d(hospitals, held_out)

cases, votes, alone = pool[:asked], np.zeros((asked, 2), dtype=int), []
for party in parties:
    mine = hospital == party
    if len(np.unique(y[mine])) == 1:
        said = np.full(asked, y[mine][0])
    else:
        teacher = LogisticRegression(C=0.3, class_weight="balanced", max_iter=1000).fit(x[mine], y[mine])
        risk = teacher.decision_function(x[cases])
        said = (risk > np.quantile(teacher.decision_function(x[pool]), 1 - 0.63)).astype(int)
        alone.append(roc_auc_score(y[test], teacher.decision_function(x[test])))
    votes[np.arange(asked), said] += 1
print(
    f"{len(parties)} hospitals voted on {asked} cases; a hospital's own teacher has a median AUC of"
    f" {np.median(alone):.3f}"
)

# %% [markdown]
# The same votes, with the noise of each epsilon, drawn 40 times. The student is a Bayesian ridge regression on the
# noisy share of votes, which finds its penalty in the noisy histograms alone.


# %%
def auc_of_student(sigma: float, seed: int) -> float:
    """AUC on the test cases of a student of one draw of the noise."""
    noisy = votes + np.random.default_rng(seed).normal(0, sigma, size=votes.shape)
    student = BayesianRidge().fit(x[cases], (noisy[:, 1] - noisy[:, 0]) / len(parties))
    return float(roc_auc_score(y[test], student.predict(x[test])))


draws = pl.DataFrame(
    [(epsilon, auc_of_student(sigma, seed)) for epsilon, sigma in noise.items() for seed in range(40)],
    schema=["epsilon", "auc"],
    orient="row",
)
shown = draws.group_by("epsilon", maintain_order=True).agg(
    median=pl.col("auc").median(), low=pl.col("auc").quantile(0.1), high=pl.col("auc").quantile(0.9)
)
without = auc_of_student(0, 0)
for epsilon, median, low, high in shown.iter_rows():
    print(f"epsilon {epsilon:<4}  AUC {median:.3f} (8 of 10 draws: {low:.3f} to {high:.3f})")
print(f"no noise      AUC {without:.3f}")

# %%
base = alt.Chart(shown, title="Students of the same votes: median and 8 of 10 draws", width=330, height=220)
axis = alt.X("epsilon:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=epsilons, format="~g"))
lines = pl.DataFrame({"auc": [float(np.median(alone)), without], "what": ["a hospital alone", "votes without noise"]})
alt.layer(
    base.mark_rule(strokeWidth=2).encode(
        x=axis, y=alt.Y("low:Q", title="AUC", scale=alt.Scale(zero=False)), y2="high:Q"
    ),
    base.mark_point(filled=True, size=60).encode(x=axis, y="median:Q"),
    alt.Chart(lines)
    .mark_rule(strokeDash=[4, 3])
    .encode(y="auc:Q", color=alt.Color("what:N", title=None, legend=alt.Legend(orient="bottom"))),
)

# %% [markdown]
# **Nobody may choose epsilon from this picture in a real federation.** The points are functions of private votes:
# whoever picks the value where the curve flattens publishes something that no epsilon counts. It is shown because the
# trial's data are public.
#
# ## How to choose then
#
# By public facts: how many hospitals and public cases there are, and what the hospitals' officers accept. `consilium
# plan` computes from these what to expect:


# %%
def plan(epsilon: float) -> dict:
    """`consilium plan stroke`, with the noise that 300 histograms take at this epsilon."""
    command = [sys.executable, "-m", "consilium", "plan", "stroke", "--format", "json"]
    command += ["--set", f"federation.mechanism.sigma={noise[epsilon]}"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


for epsilon in (0.1, 1.0):
    told = plan(epsilon)
    student, share = told["forecast"]["student"], told["noise"]["on_share"]
    print(
        f"epsilon {epsilon}: {told['facts']['parties']} parties; from all answers a share of the votes is known to"
        f" ±{share:.2f}; student's AUC {student['low']:.2f} to {student['high']:.2f}, median {student['median']:.2f}"
    )
    for warning in told["warnings"]:
        print("  warning:", warning["text"] if isinstance(warning, dict) else warning)

# %% [markdown]
# The forecast is wide, because the hospitals' task is not known to it. A plan that says the noise is larger than any
# vote is a reason to find more hospitals or to leave it ([planning](../planning.md)). In this order: agree on the
# largest epsilon with those who answer for the patients, plan, and ask more hospitals if the plan expects nothing.
