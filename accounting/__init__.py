"""What a release costs in privacy. Pure functions of votes, noise scales and orders; usable on any vote histograms.

events -> curves -> guarantee: a mechanism describes what it released as an event (``events``), the accountant adds the
curves of events (``accountant``), and a guarantee prints itself with everything a reader must know (``guarantee``).
"""
