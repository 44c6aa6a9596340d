"""Captures to records, and what broke bad batches: in this process, or by tasks on any executor.

records.py      captures to OUT/records
plan.py         how captures are shared out: which task reads what, which part holds which connections
cutting.py      packets cut by connection; shuffle.py: the files that carry them; arrival.py: packets of a part
decode.py       what the tasks do
surveys.py      walks over large captures while an executor starts
names.py        names that connections report, shared by all tasks
forensics.py    what broke the batches with bad checksums
"""
