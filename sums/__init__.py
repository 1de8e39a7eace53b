"""Hidden sums of votes: masks among the parties, or two aggregators. Nothing here knows a transport or a disk of its
own.

roster, terms, errors  who takes part, under which keys; what the coordinator signs, and what a protocol needs of a
                       party; what can go wrong
modes                  the table of both protocols
secure                 pairs of parties mask their votes; the masks cancel in the sum (Bonawitz et al. 2017)
verified               parties share their votes out to two aggregators, with a proof that they are votes (as in Prio3)
"""
