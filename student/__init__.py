"""Runs at the student node: asks for labels, trains, evaluates. Only its model is ever published."""
