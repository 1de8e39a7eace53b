"""What a release costs in privacy. Pure functions of votes, noise scales and orders; usable on any vote histograms.

A mechanism describes what it released as an event; the accountant adds the curves of events; a guarantee prints itself
with everything that a reader must know.

units       whose data may change, and how; who sees the releases; which noise is drawn
curves      one formula with its theorem each: Renyi curves of releases, and the way to (epsilon, delta)
outcome     what one label or one check costs at the votes at hand, computed instead of bounded
events      what was released, as frozen values that know their own cost
accountant  composition: dry run, then commit, under a cap that was fixed before
guarantee   an epsilon with its unit, relation, audience and kind
sanitise    a data-dependent epsilon that may be published
planning    parameters from public or simulated votes: calibration, assessment
histogram   what votes must be before any bound looks at them
checks      what numbers must be
errors      typed errors, none of which shows a vote
cli         `consilium accounting`
"""
