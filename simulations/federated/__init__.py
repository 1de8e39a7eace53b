"""Federated averaging, the rival of votes: Flower's own strategies on parties in this process, private or not."""
