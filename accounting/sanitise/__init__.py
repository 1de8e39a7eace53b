"""A data-dependent epsilon that may be published: planned on public votes, released with noise, paid for."""
