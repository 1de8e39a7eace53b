"""The label service: what a student may ask, and what it gets."""
