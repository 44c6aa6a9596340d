"""Captures to records, and what broke bad batches: in this process, or by tasks on any executor.

records.py      captures to OUT/records
plan.py         how captures are shared out: which task reads what, which part holds which connections
forecast.py     what a job would do with captures of which names and sizes are known
cutting.py      packets cut by connection; shuffle.py: the files that carry them; arrival.py: packets of a part
decode.py       what the tasks do
listings.py     lists of the record files that tasks write; joining.py: these become files of a size
surveys.py      walks over large captures while an executor starts
names.py        names that connections report, shared by all tasks
forensics.py    what broke the batches with bad checksums
"""
