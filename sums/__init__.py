"""Hidden sums of votes: masks among the parties, or two aggregators. Nothing here knows a transport or a disk of its
own.

roster, terms, errors  who takes part, under which keys; what the coordinator signs; what can go wrong
voter, modes           what a protocol needs of a party; the table of both protocols
packing                bytes of messages and of saved states
secure                 pairs of parties mask their votes; the masks cancel in the sum (Bonawitz et al. 2017)
verified               parties share their votes out to two aggregators, with a proof that they are votes (as in Prio3)
"""
