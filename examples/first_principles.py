# %% [markdown]
# # PATE from first principles
#
# Each hospital trains a teacher on its own patients. The teachers vote on patients that are public, noise is added to
# the votes, and a student learns from what comes out. Every step is written out here with NumPy and scikit-learn.
# Only the accounting is Consilium's, and it is checked by hand.
#
# The data are the International Stroke Trial, which comes with the package: 19,285 patients, their hospital, what was
# known at admission, and whether they were dead or dependent after six months (Sandercock, Niewada, Czlonkowska 2011;
# terms in `simulations/datasets/stroke.LICENSE.txt`).

# %%
import json
from importlib.resources import files

import altair as alt
import numpy as np
import polars as pl
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from consilium import accounting

_ = alt.renderers.enable("svg")  # pictures that need no network

# %% [markdown]
# ## The table

# %%
with np.load(str(files("consilium.simulations.datasets") / "stroke.npz")) as file:
    raw = {name: file[name] for name in file.files}
words = json.loads(str(raw["vocabulary"]))

columns = [raw[name].astype(float) for name in ("RDELAY", "AGE", "RSBP")]
columns += [(raw[name] == code).astype(float) for name in words for code in range(1, len(words[name]))]
x = np.stack(columns, axis=1)
y = np.isin(raw["OCCODE"], (1, 2)).astype(int)
hospital = raw["HOSPNUM"]
print(f"{x.shape[0]} patients, {x.shape[1]} features, {len(np.unique(hospital))} hospitals")

# %% [markdown]
# ## Who is public
#
# One hospital in five is held out whole. Half of its patients are the public cases, asked without their outcomes; the
# other half is the test set. Means and spreads come from the public cases: private rows must shape nothing that
# everybody sees.

# %%
generator = np.random.default_rng(0)
hospitals = np.unique(hospital)
held_out = generator.choice(hospitals, size=len(hospitals) // 5, replace=False)
public = generator.permutation(np.flatnonzero(np.isin(hospital, held_out)))
pool, test = np.array_split(public, 2)

centre, spread = x[pool].mean(axis=0), x[pool].std(axis=0) + 1e-9
x = (x - centre) / spread
parties = np.setdiff1d(hospitals, held_out)
sizes = np.array([(hospital == party).sum() for party in parties])
print(f"{len(parties)} hospitals are parties, the median one with {np.median(sizes):.0f} patients")
print(f"{len(pool)} public cases, {len(test)} test cases")

# %% [markdown]
# ## Teachers
#
# One for each hospital. A hospital that saw one outcome only takes part all the same: a rule that looked at outcomes
# would tell about them.

# %%
asked = pool[:300]
said = np.empty((len(parties), len(asked)), dtype=int)
alone = []
for row, party in enumerate(parties):
    mine = hospital == party
    if len(np.unique(y[mine])) == 1:
        said[row] = y[mine][0]
        alone.append(0.5)
        continue
    teacher = LogisticRegression(C=0.3, class_weight="balanced", max_iter=1000).fit(x[mine], y[mine])
    said[row] = teacher.predict(x[asked])
    alone.append(roc_auc_score(y[test], teacher.decision_function(x[test])))
print(f"AUC of a hospital's own teacher on the test cases: median {np.median(alone):.3f}, best {max(alone):.3f}")

# %% [markdown]
# ## Votes
#
# On each public case the votes are counted: a histogram with two numbers, whose sum is the number of teachers.

# %%
votes = np.stack([(said == 0).sum(axis=0), (said == 1).sum(axis=0)], axis=1)
print("independent, dead or dependent:", votes[:5].tolist())
plurality = votes.argmax(axis=1)
print(f"{np.mean(plurality == y[asked]):.1%} of the winners without noise are right")

# %%
bins = pl.DataFrame({"votes": votes[:, 1]})
alt.Chart(bins, title="Teachers that vote for “dead or dependent”", width=330, height=180).mark_bar().encode(
    x=alt.X("votes:Q", bin=alt.Bin(maxbins=25), title=f"votes of {len(parties)}"),
    y=alt.Y("count()", title="public cases"),
)

# %% [markdown]
# ## Noise
#
# Without noise, whoever knows all other votes would learn the last one. So every count gets Gaussian noise, and only
# the class with the larger noisy count is released.

# %%
sigma = 100.0
noisy = votes + generator.normal(0, sigma, size=votes.shape)
labels = noisy.argmax(axis=1)
print(f"{np.mean(labels == plurality):.1%} of the noisy winners are those without noise")
print(f"{np.mean(labels == y[asked]):.1%} are right")
print(f"{max(np.mean(y[asked]), 1 - np.mean(y[asked])):.1%} would be right if the more frequent class were always said")

# %% [markdown]
# ## Epsilon of one query, by hand
#
# The promise is about one hospital: all that it holds may be replaced by anything else. Its one vote then goes from
# one count to another, which moves the histogram by √2 (Euclidean distance). Gaussian noise of deviation sigma
# against a move of √2 has at each Renyi order alpha above 1 the divergence (Mironov 2017, proposition 7)
#
#     alpha * (√2)² / (2 sigma²) = alpha / sigma²
#
# An order becomes an epsilon at a chosen delta (proposition 3), and the best order may be taken:
#
#     epsilon = divergence + log(1 / delta) / (alpha - 1)
#
# The exact answer for Gaussian noise has a closed form too: delta as a function of epsilon, from two normal tails
# (Balle and Wang 2018, theorem 8).

# %%
delta = 1e-5
orders = np.linspace(1.01, 2000, 400_000)


def by_renyi(queries: int) -> float:
    """Epsilon of so many noisy histograms: divergences of the same order add up."""
    return float(np.min(queries * orders / sigma**2 + np.log(1 / delta) / (orders - 1)))


def exactly(queries: int) -> float:
    """The smallest epsilon at which the two normal tails differ by at most delta; bisection."""
    move = np.sqrt(2 * queries) / sigma
    low, high = 0.0, 100.0
    for _ in range(100):
        middle = (low + high) / 2
        spent = norm.cdf(move / 2 - middle / move) - np.exp(middle) * norm.cdf(-move / 2 - middle / move)
        low, high = (middle, high) if spent > delta else (low, middle)
    return high


print(f"one query:   by Renyi {by_renyi(1):.4f}, exactly {exactly(1):.4f}")
print(f"{len(votes)} queries: by Renyi {by_renyi(len(votes)):.4f}, exactly {exactly(len(votes)):.4f}")

# %% [markdown]
# Queries compose: 300 Gaussian releases are together one with a move √300 times as long. While epsilon is small it
# grows like the square root of the number of queries.
#
# Consilium charges the same, and less where only winners leave:

# %%
mechanism = accounting.GNMax(sigma=sigma)
found = accounting.epsilon(votes, mechanism, delta=delta, noise="continuous", show_secret=True)
print(f"worst case, the whole noisy histogram leaves: {found.worst_case_as_histogram:.4f}")
print(f"worst case, the winner alone leaves:          {found.worst_case:.4f}")

# %%
if abs(found.worst_case_as_histogram - exactly(len(votes))) > 1e-3:
    raise SystemExit("the calculation by hand and the accountant disagree")

# %% [markdown]
# ## What the votes themselves would say
#
# Where nearly all teachers agree, noise hardly ever changes the winner, and one hospital can hardly be seen. Theorem
# 6 of Papernot et al. 2018 bounds epsilon at the votes that there were (*published*). Consilium also computes what
# that theorem bounds (*exact*).
#
# **Only the worst case may be published.** The other two tell about private votes; they are shown because this is a
# simulation (`show_secret=True`). Here teachers disagree a lot, so the votes' own cost is not far below the worst
# case, and the theorem lies above both. Where nearly all agree it is otherwise:

# %%
print(f"published bound (theorem 6): {found.published:.4f}")
print(f"exact, both directions:      {found.exact:.4f}")
print(f"worst case over all votes:   {found.worst_case:.4f}")

# %%
found.plot()

# %% [markdown]
# **Only the worst case may be published.** The other two are computed from private votes, so that they tell about
# them: they are shown here because this is a simulation (`show_secret=True`; without it they print as `secret`). Here
# teachers disagree a lot. The votes' own cost is then not far below the worst case, and the theorem, which falls back
# to the cost of the whole histogram by Renyi divergences, lies above both. Where nearly all agree it is otherwise:

# %%
agreeing = np.tile([len(parties) - 5, 5], (len(votes), 1))
wide = accounting.GNMax(sigma=40)
easy = accounting.epsilon(agreeing, wide, delta=delta, noise="continuous", show_secret=True)
print(
    f"all but five agree, sigma 40: worst case {easy.worst_case:.4f}, published {easy.published:.4f},"
    f" exact {easy.exact:.4f}"
)

# %% [markdown]
# ## The student
#
# It sees 300 public cases and 300 noisy labels, and never a private row. What it computes from them costs nothing
# more: that is the point of differential privacy.


# %%
def auc_of_student(labels: np.ndarray) -> float:
    """AUC on the test cases of a student that learns from these labels of the public cases."""
    student = LogisticRegression(C=0.002, max_iter=1000).fit(x[asked], labels)
    return float(roc_auc_score(y[test], student.decision_function(x[test])))


draws = [(votes + generator.normal(0, sigma, size=votes.shape)).argmax(axis=1) for _ in range(20)]
students = [auc_of_student(draw) for draw in draws]
private_rows = np.flatnonzero(~np.isin(hospital, held_out))
pooled = LogisticRegression(C=0.3, max_iter=1000).fit(x[private_rows], y[private_rows])
yardsticks = {
    "a hospital alone (median)": float(np.median(alone)),
    "student, noisy winners (mean of 20)": float(np.mean(students)),
    "student, winners without noise": auc_of_student(plurality),
    "student, true labels": auc_of_student(y[asked]),
    "all private rows in one place": float(roc_auc_score(y[test], pooled.decision_function(x[test]))),
}
for name, auc in yardsticks.items():
    print(f"{name:<36} {auc:.3f}")

# %%
frame = pl.DataFrame({"who": list(yardsticks), "auc": list(yardsticks.values())})
alt.Chart(frame, title="AUC on the test cases", width=230, height=150).mark_point(filled=True, size=80).encode(
    x=alt.X("auc:Q", title="AUC", scale=alt.Scale(zero=False)),
    y=alt.Y("who:N", title=None, sort=None, axis=alt.Axis(labelLimit=260)),
)

# %% [markdown]
# The student's figure varies with the noise, which in a real federation is drawn once and cannot be drawn again:

# %%
print(f"20 draws of the noise: {min(students):.3f} to {max(students):.3f}, standard deviation {np.std(students):.3f}")

# %% [markdown]
# ## What a real federation adds
#
# Here one program saw everything. In a deployment each hospital runs its own teacher, [secure
# sums](../secure-aggregation.md) hide single votes, noise comes from the operating system, and each release is
# charged to a [ledger](../run-folder.md) before it leaves. A student may also get the whole noisy histogram, which is
# charged as such ([results](../results.md)). How the bounds are proved: [accounting](../accounting.md).
