"""A study: many simulated federations that differ in a few keys, compared with each other and with other methods."""
