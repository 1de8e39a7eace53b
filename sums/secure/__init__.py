"""Sums under masks: what parties and coordinator compute, stage by stage.

terms       the terms of a session, to whose hash everything is bound
messages    the five exchanges, their bytes, what is signed in them
ring        votes modulo 2^16 or 2^32, and the masks
shares      seeds in shares
party       a party's side
machine     the coordinator's side: requests out, replies checked, who is left
unmasking   seeds rebuilt and verified, masks removed
"""
