"""Sums by two aggregators that do not collude: they sum shares of votes, and check by a short proof that they are
votes.

terms             the terms of a session, to whose hash everything is bound
field, proof      the arithmetic, the proof that each row is one vote, the randomness that it is bound to
sealing, uploads  what a party sends: one message, of which the helper gets its part through the leader
messages          the four messages between the aggregators
half              what both aggregators do, refuse and add up; both have a state that is bytes
leader, helper    the coordinator's half, and the other one
wire              all of it in envelopes, and the record that the helper signs
"""
