"""A party's side of secure aggregation.

store    what it remembers of its sessions, on disk: a new process can go on at any message
session  the five stages, their checks, and what is never given twice
masking  votes and noise under the masks
"""
