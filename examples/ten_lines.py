# %% [markdown]
# # Ten lines on one CSV
#
# A table with one row for each patient, a column that says how it ended and one that says in which hospital. The
# hospitals may not share rows. `Council` has a teacher trained in each, lets them vote on public rows, adds noise,
# and trains a student. All hospitals are simulated on one machine.
#
# First such a file, from the International Stroke Trial, which comes with the package:

# %%
import json
from importlib.resources import files

import altair as alt
import numpy as np
import polars as pl

_ = alt.renderers.enable("svg")  # pictures that need no network

with np.load(str(files("consilium.simulations.datasets") / "stroke.npz")) as file:
    columns = {name: file[name] for name in file.files}
words = json.loads(str(columns.pop("vocabulary")))
dead_or_dependent = np.isin(columns.pop("OCCODE"), (1, 2))
columns = {name: np.array(words[name])[column] if name in words else column for name, column in columns.items()}
columns["hospital"] = np.char.add("hospital ", columns.pop("HOSPNUM").astype(str))
columns["outcome"] = np.where(dead_or_dependent, "dead or dependent", "independent")
pl.DataFrame(columns).write_csv("patients.csv")
print(pl.DataFrame(columns).select("AGE", "RSBP", "SEX", "RATRIAL", "hospital", "outcome").head(4))

# %% [markdown]
# Numbers, letters and gaps are left as they are. From here on it is this, and `import polars as pl`:

# %%
from consilium import Council

frame = pl.read_csv("patients.csv")
council = Council(epsilon=1.0, delta=1e-5, unit="party", random_state=0)
council.fit(frame, "outcome", owners="hospital")
probabilities = council.predict_proba(frame.head(3))
council

# %% [markdown]
# `unit="party"` says whom the guarantee is about: a whole hospital. It has no default, because nobody else can decide
# it. One hospital in five is held out whole, and its patients are treated as public: half of them may be asked, the
# other half judge the student.
#
# ## What is promised

# %%
print(council.privacy_)
print("planned:", council.plan_["mechanism"])

# %% [markdown]
# Noise comes from the operating system, so the figures are others at each fit. Fitting again on the same hospitals is
# one more release: `council.privacy_` then adds them up.
#
# ## What the student knows

# %%
for age, chances in zip(frame["AGE"], probabilities, strict=False):
    told = ", ".join(f"{name} {chance:.2f}" for name, chance in zip(council.classes_, chances, strict=True))
    print(f"a patient of {age}: {told}")

# %%

# %% [markdown]
# AUC says how well patients are ranked, accuracy also where the line between the classes is drawn. From noisy labels
# a student learns the ranking first. Where only its accuracy is poor, the line is missing: a declared prevalence
# (`asking={"prevalence": [...]}`) says it from public facts, and votes by [class
# shares](../scenarios.md#voting-rules) as far as noise lets them.
#
# ## What is behind it
#
# A run folder with a ledger, a report, and an audit that recomputes every claim from the files:

# %%
print(council.labels_.select("row", "outcome", "label").head(3))
audit = council.run_.audit()
print("the audit holds:", bool(audit))
print(f"the report is one HTML file of {len(bytes(council.report_)) // 1000} kB; council.report_.open() shows it")

# %% [markdown]
# All arguments are in [Python](../python.md). A scenario reads the same file ([data of your own](../data.md)) and is
# deployed as it stands: [from a simulation to kits](to_kits.ipynb). What epsilon means: [choosing
# epsilon](choosing_epsilon.ipynb).
