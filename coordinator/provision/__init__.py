"""The operator's side: one authority, and one signed folder for all nodes."""
