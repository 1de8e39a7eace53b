"""The student as it is given to others: a file that holds numbers and cannot run code, a card, and predictions."""
