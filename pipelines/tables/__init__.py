"""The aggregate tables: one SQL query each, which DuckDB and Spark run. docs/tables.md is written from here.

latency, errors, throughput, …   one module a subject
table.py         what a table is
dialect.py       what the two engines say differently
points.py        what several capture points saw counts once
verdicts/        what is wrong, in sentences
registry.py      the list of all tables, which loads every one
compute.py       the tables of one run, by an engine
on_duckdb.py     that engine in this process (on Spark: spark/tables.py); and the tables, read again in order
first_rows.py    their first rows as CSV
bad_batches.py   bad checksums, and the rows that may tell why
blind_spots.py   what a capture cannot show
"""
