"""The report of a study as one HTML file: tables and pictures with their numbers, and what follows from them."""
