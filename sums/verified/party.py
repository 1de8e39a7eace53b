"""A party's one answer in a verified session: its votes, in two parts of which neither tells anything.

What a party cannot see, whether its votes were summed, and with whom, the helper looks after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from consilium.protocol.identity import digest
from consilium.protocol.messages import WireModel
from consilium.protocol.refusals import Refused, Rule
from consilium.sums.errors import Replay, RosterMismatch, StageOrder
from consilium.sums.roster import VerifiedRoster
from consilium.sums.terms import LIFETIME, QuerySet, Voter
from consilium.sums.verified.messages import UploadReply, UploadRequest, as_array
from consilium.sums.verified.proof import SPACE
from consilium.sums.verified.uploads import VerifiedTerms, check_key, make_upload

TABLES = (
    "uploads (sid TEXT PRIMARY KEY, query_set TEXT NOT NULL, round INTEGER NOT NULL, started REAL NOT NULL,"
    " request BLOB NOT NULL, upload BLOB)",
)
"""request: digest of the terms and the key for which the upload was made. upload: NULL once it is erased."""
MOST_SESSIONS = 20
"""On one query set in one round. A session that is not brought to its end may be tried again; each is a chance for an
aggregator to refuse this party and see what follows."""
MOST_KEPT = 20
"""Uploads, of the last sessions: the same queries in another order are another set, and are charged once."""


def upload(voter: Voter, request: UploadRequest) -> UploadReply:
    """Votes, counted against the party's limits. The same request gets the same bytes. Raises Refused (policy, promise
    or budget do not allow it, or so many sessions were tried), SecAggError (the session is not the coordinator's, not
    of this roster, or was asked in another way before; or the key to seal for is not the helper's of this session) or
    ConfigError (no usable key or roster)."""
    roster, signer, store = voter.roster(VerifiedRoster), voter.identity, voter.store
    terms = VerifiedTerms.open(request.terms, request.signature, roster)
    place = roster.place(voter.name)
    if roster.key(place) != signer.public:
        raise RosterMismatch(f"the roster has another key for {voter.name} than this node")
    check_key(bytes.fromhex(roster.helper.ed25519_pk), terms.ctx, request.helper_key, request.helper_signature)
    made_for, now = digest(SPACE + "request", terms.ctx, request.helper_key), time.time()
    with store.transaction():
        store.execute("UPDATE uploads SET upload = NULL WHERE started < ? AND upload IS NOT NULL", now - LIFETIME)
        known = store.one("SELECT request, upload FROM uploads WHERE sid = ?", terms.sid)
        if known is None:
            counted = "SELECT COUNT(*) FROM uploads WHERE query_set = ? AND round = ?"
            tried = store.execute(counted, terms.query_set, terms.round)[0][0]
            if tried >= MOST_SESSIONS:
                detail = "so many sessions on the same queries"
                raise Refused(Rule.REPLAY, limit=MOST_SESSIONS, requested=tried + 1, detail=detail)
            if len(request.queries) != terms.queries:  # else it would be charged for others than it votes on
                detail = "the session is of another number of queries"
                raise Refused(Rule.MALFORMED, limit=terms.queries, requested=len(request.queries), detail=detail)
            query_set = QuerySet(request.queries, terms.query_set, request.places, request.proof)
            votes = voter.votes(terms, query_set, again=False)
            known = made_for, make_upload(terms, place, signer, request.helper_key, votes)
            row = terms.sid, terms.query_set, terms.round, now, *known
            store.execute("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?)", *row)
            kept = "SELECT sid FROM uploads WHERE upload IS NOT NULL ORDER BY rowid DESC LIMIT ?"
            erase = f"UPDATE uploads SET upload = NULL WHERE upload IS NOT NULL AND sid NOT IN ({kept})"
            store.execute(erase, MOST_KEPT)
        else:
            voter.check(terms)
    if known[0] != made_for:
        raise Replay(f"session {terms.sid} was asked in another way before")
    if known[1] is None:
        raise StageOrder(f"session {terms.sid} is over: its lifetime has passed, or others came after it")
    return UploadReply(sid=terms.sid_bytes, party=voter.name, upload=as_array(known[1]))


ANSWERS: Mapping[type[WireModel], Callable[[Voter, Any], WireModel]] = {UploadRequest: upload}
