"""Tables of strangers brought into one schema: readers, encoding, public rows, sources, partitions."""
