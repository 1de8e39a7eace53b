"""Hidden sums: masks among the parties, or two aggregators; roster, session, proofs and errors of both."""
