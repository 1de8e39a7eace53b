"""Results of a study in few numbers: means over seeds, paired differences, what parties gain, and findings."""
