"""The coordinator's console: one read-only page, the same as JSON, and its metrics; from the files of the kit."""
