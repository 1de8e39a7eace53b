"""Secure aggregation of votes: what parties and coordinator must compute alike.

identity, roster, session   who takes part, under which terms; everything is bound to CTX, the hash of the session
stages, messages, packing   the five exchanges and their bytes
framing, agreement, shamir, masks, ring, statements   the primitives: Bonawitz et al. 2017, with pinned identities
curve, commitments          shares that are verified before anything is used up
"""
