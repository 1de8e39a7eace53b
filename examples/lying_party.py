# %% [markdown]
# # What a lying party can do
#
# What can one party that lies do to a label, what is seen of it, and what does it learn? The attacks are played
# against the real components, each with an honest control. One case is asked, with two classes, among thirty parties
# of one vote each.

# %%
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import altair as alt
import numpy as np
import polars as pl
from scipy.stats import norm

from consilium import ConsiliumError, accounting
from consilium.party.masked_session import PartySession
from consilium.protocol.choices import fault
from consilium.protocol.identity import Identity
from consilium.protocol.queries import canonical_queries
from consilium.sums.masks.machine import Aggregation, SecureSum, drive, whole_blocks
from consilium.sums.masks.messages import Stage
from consilium.sums.masks.terms import MaskedTerms
from consilium.sums.roster import Roster

_ = alt.renderers.enable("svg")  # pictures that need no network

# %% [markdown]
# ## Plaintext votes
#
# The coordinator sees the class that each party says, and holds it against what a party of one vote can say. `fault` is
# its check.

# %%
lies = {
    "honest": np.array([[1]], dtype=np.uint8),
    "the other class": np.array([[0]], dtype=np.uint8),
    "twenty votes": np.array([[0] * 20], dtype=np.uint8),
    "a negative class": np.array([[-1]], dtype=np.int8),
    "no vote": np.zeros((1, 0), dtype=np.uint8),
    "a third class": np.array([[2]], dtype=np.uint8),
}
for name, row in lies.items():
    print(f"{name:<17} {fault(row, queries=1, classes=2, teachers=1) or 'counted'}")

# %% [markdown]
# Whatever is no vote leaves its party out by name. **A vote for the wrong class is counted**, since nobody else knows
# the right one. So a liar moves a count by one, like everybody. How much is that, once there is noise?

# %%
parties, sigma = 30, 10.0
gaps = np.arange(-parties, parties + 1, 2)  # votes for the first class minus those for the second, of all but the liar
chance = {said: norm.cdf((gaps + said) / (np.sqrt(2) * sigma)) for said in (1, -1)}
most = max(abs(chance[1] - chance[-1]))
print(f"noise ±{sigma:.0f}: one vote moves the chance of a label by at most {most:.3f}")

one = accounting.epsilon([[15, 15]], accounting.GNMax(sigma=sigma), delta=1e-5, noise="continuous")
print(f"one label costs epsilon {one.worst_case:.3f} at delta 1e-5, whatever the votes are")

# %% [markdown]
# What hides a party from readers also keeps it from deciding: whatever one party says, no label is more likely than
# before by more than a factor of e to the power of epsilon, but for delta.

# %%
factor = max(np.max(chance[1] / chance[-1]), np.max((1 - chance[-1]) / (1 - chance[1])))
print(
    f"largest factor by which one vote makes a label more likely: {factor:.3f};"
    f" epsilon allows {np.exp(one.worst_case):.3f}"
)

# %%
frame = pl.concat(
    [
        pl.DataFrame({"gap": gaps, "chance": 100 * chance[said], "liar": [f"votes for the {word} class"] * len(gaps)})
        for said, word in ((1, "first"), (-1, "second"))
    ]
)
alt.Chart(frame, title="Chance that the first class is released", width=330, height=200).mark_line().encode(
    x=alt.X("gap:Q", title="honest votes for the first class minus the second"),
    y=alt.Y("chance:Q", title="%"),
    color=alt.Color("liar:N", title="the liar", legend=alt.Legend(orient="bottom")),
)

# %% [markdown]
# ## Sums under masks
#
# Masks hide each row from the coordinator; it learns the sum only. The protocol runs here with its real messages. The
# liar's software is changed in one place: it does not check what it sends. No noise is in these sums (`collection =
# "secure"`), so that the lie can be seen.

# %%
folder = tempfile.TemporaryDirectory()  # removed with this program
home = Path(folder.name)
names = [f"hospital-{number:02d}" for number in range(parties)]
keys = {name: Identity.generate() for name in names}
coordinator = Identity.generate()
roster = Roster.build({name: key.public.hex() for name, key in keys.items()}, coordinator.public.hex())
LIAR = names[-1]
sessions = 0

Tamper = Callable[[Stage, str, object], object]


def untouched(stage: Stage, name: str, reply: object) -> object:
    """What an honest network does."""
    return reply


def secure_sum(rows: dict[str, list[int]], tamper: Tamper = untouched) -> SecureSum:
    """One session of parties with empty files, in which each sends its row; the liar's goes out unchecked.

    Raises
    ------
    ConsiliumError : what the coordinator finds wrong.
    """
    global sessions
    sessions += 1
    queries = canonical_queries(np.ones((1, 2)), 2)
    terms = MaskedTerms.create(roster, "f" * 64, queries=queries, classes=2, teachers=1)
    stores = {name: PartySession(home / f"{sessions}-{name}.db", keys[name], name, roster) for name in names}

    def answer(name: str, stage: Stage, request: object) -> object:
        party = stores[name]
        if stage is Stage.ADVERTISE:
            return party.advertise(request, lambda terms: None)
        if stage is Stage.SHARE:
            return party.share(request)
        if stage is Stage.CONSISTENCY:
            return party.consistency(request)
        if stage is Stage.UNMASK:
            return party.unmask(request)
        votes = np.array([rows[name]])
        if name != LIAR:
            return party.masked(request, lambda queries: votes.astype(np.uint16))
        with mock.patch("consilium.party.masked_session.checked_votes", lambda votes, terms, weight: votes):
            return party.masked(request, lambda queries: votes)

    def send(stage: Stage, requests: dict) -> dict:
        return {name: tamper(stage, name, answer(name, stage, request)) for name, request in requests.items()}

    machine = Aggregation(roster, coordinator, terms, queries, choose=whole_blocks(roster, roster.u_min))
    return drive(machine, send)


honest = {name: [1, 0] if number < 20 else [0, 1] for number, name in enumerate(names)}
print("all honest:", secure_sum(honest).sums.tolist())

# %% [markdown]
# Now the liar sends numbers instead of a vote. They add up to one, as its vote should:

# %%
decided = secure_sum({**honest, LIAR: [-20, 21]})
print("the liar sends [-20, 21]:", decided.sums.tolist(), "out of range:", decided.clipped.tolist())

# %% [markdown]
# **It has decided the label, nobody is named, and noise that hides one vote does not hide this.** Consilium does not
# prevent it ([secure votes](../secure-aggregation.md#what-it-does-not-protect-against)). What is seen are the lies
# that break a rule:


# %%
def told(rows: dict[str, list[int]], tamper: Tamper = untouched) -> str:
    """What the coordinator is told of a session."""
    try:
        found = secure_sum(rows, tamper)
    except ConsiliumError as error:
        return f"no sum: {error.what}"
    named = {name: reason for stage in found.dropped.values() for name, reason in stage.items()}
    return f"sum of {len(found.survivors)}, out of range {found.clipped.any()}, named: {named or 'nobody'}"


def false_key(stage: Stage, name: str, reply: object) -> object:
    """The liar's advert with another key than the one it signed."""
    if stage is Stage.ADVERTISE and name == LIAR:
        return reply.model_copy(update={"mask_point": keys[names[0]].public})
    return reply


def another_name(stage: Stage, name: str, reply: object) -> object:
    """The liar answers as if it were the first party."""
    return reply.model_copy(update={"party": 0}) if name == LIAR else reply


def silent(stage: Stage, name: str, reply: object) -> object:
    """The liar does not answer when masks come off."""
    return "no answer" if stage is Stage.UNMASK and name == LIAR else reply


cases = {
    "honest (control)": (honest, untouched),
    "numbers that add up to one": ({**honest, LIAR: [-20, 21]}, untouched),
    "numbers that take a count below zero": ({**honest, LIAR: [-25, 26]}, untouched),
    "two votes": ({**honest, LIAR: [0, 2]}, untouched),
    "a key that it did not sign": (honest, false_key),
    "another party's name": (honest, another_name),
    "silence when masks come off": (honest, silent),
}
for name, (rows, tamper) in cases.items():
    print(f"{name}\n    {told(rows, tamper)}")

# %% [markdown]
# Where a party drops out of an exact sum, the other one of its block does, too: sums with and without one hospital
# would tell its vote. After a wrong total the coordinator asks again without some blocks, until it knows which one
# spoils sums.
#
# ## Does the liar learn anything?
#
# A lie might probe honest votes: take 20 from a class, and see whether the sum still comes to an end. So a count that
# is out of range is brought back into it, and nothing is told to anybody but the coordinator's own log:

# %%
for first in (19, 20):
    rows = {name: [1, 0] if number < first else [0, 1] for number, name in enumerate(names)}
    found = secure_sum({**rows, LIAR: [-20, 21]})
    print(f"{first} honest votes for the first class: the session ends with a sum of {len(found.survivors)} parties")

# %% [markdown]
# ## What to do about it
#
# | votes | one liar | seen |
# |---|---|---|
# | `plaintext` | one vote, like everybody | anything but a vote, by name; the coordinator sees all votes |
# | `verified` | one vote | anything but a vote, by name; two organisations must work together to see a vote |
# | `distributed` | any label | sums that noise cannot explain, without a name; false keys and names, by name |
# | `secure` | any label | wrong totals, by the block; false keys and names, by name |
#
# Where a second organisation can run a node, verified votes are the answer. Without one, `distributed` hides votes and
# [one liar can turn the student round](../laboratory/results.md#one-lying-hospital): read the [threat
# model](../threat-model.md) first. A few public cases whose labels are known, asked among the others, show afterwards
# whether labels are right more often than the forecast; they do not say who lied. All attacks that are played in the
# tests, with the version before each defence as control: [attacks](../attacks.md).
