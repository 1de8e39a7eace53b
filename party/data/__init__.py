"""A party's own rows: brought from its file, by its own mapping, into the federation's schema.

rules       what `party.toml` says about the file: columns, label, missing values
npz, csv_file, parquet    one reader for each format; each reads the mapped columns and nothing else
columns     a column as numbers, and what is wrong with each value
problems    what the party learns about its data, and nobody else
identities  whose each row is, which decides its shard
rows        all of it together: `read_rows`, `load_rows`
federation  what a party reads of the federation's file before it takes part
"""

from __future__ import annotations

from consilium.party.data.problems import DataReport, Problem
from consilium.party.data.rows import Rows, load_rows, read_rows
from consilium.party.data.rules import DataRules

__all__ = ["DataReport", "DataRules", "Problem", "Rows", "load_rows", "read_rows"]
