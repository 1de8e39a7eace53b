"""Sums under masks (Bonawitz et al. 2017): what parties and coordinator compute, stage by stage.

messages     the terms, to whose hash everything is bound; the five exchanges, and what is signed in them
masks        what two keys agree on, what is sealed with it, the masks, and seeds in shares
party        a party's five answers, and what it remembers
coordinator  its side: requests out, replies checked, who is left, masks off
"""
