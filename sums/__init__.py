"""Hidden sums of votes: masks among the parties, or two aggregators. Nothing here knows a transport or a disk of its
own.

roster, errors     who takes part, under which keys, and what can go wrong: of both
agreement          keys agreed by two nodes
field              integers modulo a prime: of both
packing            the bytes of messages and of saved states
masks              pairs of parties mask their votes; the masks cancel in the sum (Bonawitz et al. 2017)
aggregators        parties share their votes out to two aggregators, with a proof that they are votes (as in Prio3)
"""
