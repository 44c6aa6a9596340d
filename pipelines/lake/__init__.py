"""Keeping the records of a growing capture store up to date.

update.py        decodes what is new, and commits records as of one run over everything
new_files.py     what is new in a capture store: which files, from which packet on
gone.py          captures that cannot be read again, and their rows
change.py        how anything but an update changes a lake; expire.py, compact.py: what does
arrivals.py      watches a store for captures that are complete
freshness.py     whether tables and page are still those of the records
"""
