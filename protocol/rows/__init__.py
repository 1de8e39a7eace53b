"""What a row is: its schema, its representation, its id, and the public pool of rows."""
