"""Attacks on a simulated federation, each beside the same federation without noise: what could somebody learn?

bounds      from scores of an attack to rates with intervals, and to an epsilon that it proves
shadows     federations with a target and without it, and what an observer sees of them
faults      known mistakes of implementations, looked for by what a federation does
membership  was this record, this patient, this party in it? likelihood ratios over shadow federations
repeats     can the votes be had by asking the same again and again?
differences is a combination of sums one party's vote alone? a search over sets, rosters and federations
attributes  what do releases tell of the subject of a query, or of a row that trained?
liars       what do lying parties do to the student, and for themselves?
laboratory  all of it on one federation, as plain values
"""
