"""Sums by two aggregators that do not collude: they sum shares of votes, and check by a short proof that they are
votes.

field, proof  the arithmetic, the proof that each row is one vote, the randomness that it is bound to
uploads       the terms, to whose hash everything is bound; what a party sends: one message, of which the helper gets
              its part through the leader
messages      what travels, what the two aggregators seal for each other, and the record that the helper signs
aggregators   the leader, which is the coordinator, and the helper: what they refuse and add up
party         a party's answer, and what it remembers
"""
