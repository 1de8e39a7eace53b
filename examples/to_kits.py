# %% [markdown]
# # From a simulation to kits
#
# A scenario is written, simulated, and turned into one kit for each machine; a party's kit is filled with its rows
# and examined. Nothing is served. `consilium(...)` below starts the shell's commands and prints what they print.

# %%
import csv
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from consilium.simulations.datasets.embedded import load_stroke

os.environ["COLUMNS"] = "100"


def consilium(*words: str, allowed: tuple[int, ...] = (0,)) -> str:
    """What `consilium WORDS` prints. allowed: exit codes that are no surprise."""
    done = subprocess.run([sys.executable, "-m", "consilium", *words], capture_output=True, text=True)
    if done.returncode not in allowed:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


# %% [markdown]
# ## The scenario
#
# Six hospitals with up to 1,500 patients each, dealt at random from the International Stroke Trial. The guarantee is
# about one patient's record, so each hospital may train many teachers. The coordinator sees sums with the hospitals'
# own noise in them, calibrated to epsilon.

# %%
scenario = """
description = "Six hospitals, dealt by lot from the International Stroke Trial."

[data]
set = "stroke"
partition = "iid"
parties = 6
most_rows = 1500
least_rows = 600
classes = ["independent", "dead or dependent"]
public_share = 0.2

[federation]
name = "Stroke outcome"
collection = "distributed"
minimum_parties = 4
teachers_per_party = 30

[federation.teacher]
model = "logistic_regression"
C = 0.3

[federation.mechanism]
name = "histogram"

[federation.privacy]
unit = "record"
delta = 1e-5
epsilon = 2.0

[federation.query_budget]
queries = 100
answers = 100

[student.trainer]
name = "logistic_regression"
C = 0.01

[simulation]
noise = "seeded"
hand_labels = "none"
"""
Path("stroke_wards.toml").write_text(scenario)
summary = json.loads(consilium("run", "stroke_wards.toml", "--out", "simulated", "--format", "json"))
promised, student = summary["privacy"]["epsilon_guaranteed"], summary["student"]
print(f"promised: epsilon {promised:.3f} for a {summary['privacy']['unit']}, whatever the votes are")
print(f"student: AUC {student['auc']:.3f}; all rows in one place: {summary['baselines']['pooled']['auc']:.3f}")

# %% [markdown]
# ## The operator's file
#
# A deployment needs who takes part, where the coordinator is, and which rows are public. `federation` names the
# scenario; its `[federation]` is deployed as it stands. What columns mean comes from `public.csv`.

# %%
stroke = load_stroke()


def write_csv(path: str, rows: range, label: bool) -> None:
    """Some patients as a table; in a party's own file the outcome is a column more."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*stroke.features, *(["outcome"] if label else [])])
        for row in rows:
            numbers = [f"{value:g}" for value in stroke.x[row]]
            writer.writerow([*numbers, *([stroke.classes[stroke.y[row]]] if label else [])])


write_csv("public.csv", range(0, 800), label=False)

parties = ["oslo", "porto", "graz", "lyon", "turin", "leeds"]
operator = """
federation = "stroke_wards.toml"

[rows]
public = "public.csv"

[coordinator]
hosts = ["coordinator.example.org"]
"""
operator += "".join(f'\n[[party]]\nname = "{name}"\n' for name in parties)
operator += '\n[[student]]\nname = "university"\n'
Path("federation.toml").write_text(operator)
made = json.loads(consilium("provision", "federation.toml", "--out", "kits", "--format", "json"))
print(f"{len(made['kits'])} kits: epsilon {made['guarantee']['epsilon']:.3f}, delta {made['guarantee']['delta']}")
print(made["guarantee"]["relation"])

# %% [markdown]
# The digest is a hash of all that the federation is: mechanism, noise, query budget, unit, teachers. Equal digests
# promise the same.

# %%
print("simulated:  ", summary["federation_digest"][:32])
print("provisioned:", made["federation_digest"][:32])
print(*made["kits"], sep="\n")

# %% [markdown]
# Each node gets its own archive, over a channel that can be trusted, and never another node's: it holds private keys.
# (A party can [make its own](../deploy.md#keys-that-a-party-makes-itself) instead.)
#
# ## At one party
#
# Oslo unpacks its kit, puts its rows into it, and looks at what it got.

# %%
with tarfile.open("kits/party-oslo.tar.gz") as archive:
    archive.extractall("at-oslo", filter="tar")  # with their modes: nobody else may look into a kit
home = Path("at-oslo/party-oslo")
write_csv(str(home / "data.csv"), range(1000, 2500), label=True)
print((home / "party.toml").read_text())

# %% [markdown]
# There are no limits in it: what Oslo allows, Oslo says. Two lines are added that say where the rows are:

# %%
settings = (home / "party.toml").read_text().replace('data = "data.npz"', 'data = "data.csv"')
(home / "party.toml").write_text(f'{settings}\n[label]\ncolumn = "outcome"\n')
terms = str(home / "federation.json")
print(consilium("party", "check", str(home), terms))

# %% [markdown]
# `dry-run` trains the teachers and lets them vote, on this machine only: nothing is sent and nothing is spent.

# %%
tried = consilium("party", "dry-run", str(home), terms)
print(*(line for line in tried.splitlines() if not line.startswith("seconds")), sep="\n")

# %% [markdown]
# `accept` shows what is asked, beside the program's defaults and what this party accepted before. Each line that
# allows more needs a yes. Before that no node starts. What is accepted is written into Oslo's own `policy.toml`, and
# the node enforces it.

# %%
page = json.loads(consilium("party", "accept", str(home), "--print", "--format", "json"))
for line in page["lines"]:
    if line["looser"]:
        print(f"{line['key']}: {line['requested']} is asked, the default is {line['default']}. {line['risk']}")
named = [word for line in page["lines"] if line["looser"] for word in ("--yes", line["key"])]
consilium("party", "accept", str(home), *named)
print("accepted:", " ".join(named))

# %% [markdown]
# `doctor` looks at the kit as a whole: keys, certificates, clock, ports, roster, policy and data. Where the
# coordinator is not there yet, as here, it says so and ends with exit code 1.

# %%
checks = json.loads(consilium("doctor", str(home), "--format", "json", allowed=(0, 1)))
for check in checks["findings"]:
    print(f"{check['level']:<6} {check['name']}")
missing = next(check for check in checks["findings"] if check["name"] == "coordinator")
print(missing["what"], "|", missing["action"])

# %% [markdown]
# When the coordinator's machine runs `consilium node start .` in its own kit, each party runs `consilium party
# start .`, and the student `consilium student run . --out student`. [Hospitals on separate machines](../deploy.md)
# goes on from here: firewall, services, keys that parties make themselves, adding and revoking, backups.
