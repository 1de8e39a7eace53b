"""Accounting for researchers: what votes cost under a mechanism, in five lines.

mechanisms  a mechanism by its parameters alone, and in words
costs       the worst case, the published bound and the exact cost of votes, their growth by query, the least noise
dp_events   to and from the events of dp-accounting

Its public names are those of `consilium.accounting`.
"""
