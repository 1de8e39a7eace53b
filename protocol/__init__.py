"""What all nodes must agree on: messages, schema, errors and the label service's contract."""
