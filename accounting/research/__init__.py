"""Accounting for researchers: what votes cost under a mechanism, in five lines.

mechanisms  a mechanism by its parameters alone, and in words
histograms  votes as arrays, as teachers' classes, or as a file
assess      the worst case, the published bound and the exact cost of votes, and their growth query by query
result      what was found, which shows nothing secret by itself
chart       epsilon by query
calibrate   the least noise for a target
compare     several mechanisms on the same votes
dp_events   to and from the events of dp-accounting

Its public names are those of `consilium.accounting`.
"""
