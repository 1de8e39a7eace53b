"""Who the simulated parties are: the division of the rows, what is public, and which teachers are trained where."""
