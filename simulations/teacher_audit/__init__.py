"""Empirical audit of teachers and mechanism together: does a changed record move as few votes as is claimed?

row_files   a party's file with some of its rows, in the format that it has
neighbours  which rows are added, removed or replaced
teachers    what a party's teachers vote on such a file, by the party's own path from file to vote
audit       many changes, how many votes they move, and the distinguishing game on the worst of them
report      the outcome as text and JSON
command     `consilium audit teachers`
"""
