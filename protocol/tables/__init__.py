"""Strangers' tables, CSV or Parquet: one reader for parties, students, operators and simulations.

faults      what is wrong with a file, and where each reader's options stand
lines       where in which file a row stands
csv_table, parquet_table    one format each: names of the columns, and the columns that are asked for
files       several files as one
rules       what somebody says of cells: codes, units, what is missing
cells       cells of one column, by these rules
raw         a whole table of raw values: `read_table`
schema_rows a file's rows as the features of a schema: pools, public rows, rows to be judged
times       a column of dates or numbers, as days
oddness     values that are hardly in the schema's unit
"""
