"""Keeping the records of a growing capture store up to date.

update.py        decodes what is new, and commits records as of one run over everything
new_files.py     what has become of each capture, and what is therefore to be read
captures.py      captures as they are now: sizes, and what they begin with
engines.py       what the tasks of an update do: engines go on where they stopped
gone.py          captures that cannot be read again, and their rows
change.py        how anything but an update changes a lake; expire.py, compact.py: what does
arrivals.py      watches a store for captures that are complete
freshness.py     whether tables and page are still those of the records
"""
