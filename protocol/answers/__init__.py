"""What parties and the second aggregator have in common when they answer: bounds, refusals for errors, a home."""
