"""Verified votes: two aggregators that do not collude sum shares of votes, and check by a short proof that they are
votes.

field, extension, streams     the arithmetic: a prime of 16 bits, its extension of degree 8, seeds as elements
grid, proof, binder           rows as a grid, the proof that each is one vote, the randomness it is bound to
roster, session               who takes part, under which terms; everything is bound to the hash of the session
uploads, client               what a party sends: one message, of which the helper gets its part through the leader
link, leader, helper          the two aggregators, and the four messages between them
rules, sums                   what each aggregator refuses on its own; the sum and what must hold of it

Nothing here knows a transport. Both aggregators have a state that is bytes.
"""
