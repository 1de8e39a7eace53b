"""Verified votes on Flower's wire: what the coordinator asks of parties and of the second aggregator.

What is inside a message, `protocol.verified` says: here are only its envelopes, and the kinds of nodes.
"""
