"""Kits: the operator's side. One authority, and for every node a folder with what it needs and nothing of another."""
