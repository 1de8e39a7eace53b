"""Sums under masks (Bonawitz et al. 2017): what parties and coordinator compute, stage by stage.

terms        of a session, and of each sum in it, to whose hashes everything is bound
messages     the five exchanges, their bytes, what is signed in them
pairs        what two keys agree on, and what is sealed with it
shamir       seeds in shares
masks        votes modulo 2^32, and the masks
party        a party's five answers, and what it remembers
coordinator  its side: requests out, replies checked, who is left, masks off
"""
