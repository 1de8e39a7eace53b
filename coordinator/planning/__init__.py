"""A plan before a federation runs: mechanism, noise, queries and student from public facts, and what to expect of them.

Nothing here takes a vote, a row or a model of a party: what is planned on cannot be private. An import contract keeps
this folder from everything that holds votes.
"""
