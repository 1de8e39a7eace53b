"""What crosses the wire: terms, messages, refusals, labels, releases; and the few basics that all nodes share."""
