"""The papers by name: a description of each beside this file, and what runs it row by row."""

ORDER = "paper.json"  # a run's folder holds it: which paper, and what of it
