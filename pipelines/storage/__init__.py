"""Files and folders, local or behind URLs: how outputs, records and lakes are written and found again.

filesystem.py      one way to read, write, list and replace files, whatever the path or URL
outputs.py         local outputs that appear whole or not at all
layout.py          names of what `analyze` leaves in OUT
capture_paths.py   where the captures lie that OUT names
record_files.py    records as Parquet files, a file for each table, site and day
chosen_rows.py     keeps some rows of record files
lake_files.py      the manifest and the commits of a lake
stages.py          the points of a lake's captures from which decoding can go on
tails.py           rows of connections that are open at the end of a lake
stored_records.py  which files hold the records below a folder
working_folders.py folders in which a run works; OUT where no folder is replaced at once
scratch.py         temporary folders; leftovers.py: what killed runs leave
threaded_reads.py  lets the threads of DuckDB share a remote file
"""
