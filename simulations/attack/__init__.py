"""`consilium attack RUN`: who finds a party or a record in it, and what liars do, beside the same run without noise."""
