"""Captures to records, and records to tables, on Spark.

job.py          captures to OUT/records; decode.py: its tasks; blocks.py: what is shuffled between them
tasks.py        Python functions as tasks of any session, Spark Connect's too
surveys.py      walks over large captures while Spark starts
names.py        names that connections report, shared by all tasks
tables.py       the aggregate tables, computed by Spark
forensics.py    what broke the batches with bad checksums
session.py      a session that starts light; java.py: a Java for it; class_archive.py, train_java.py: its classes
options.py      the options of brokerscope on Spark
credentials.py  keys of object stores, from Spark's settings
package.py      this package as an archive for workers
catalog.py      records and tables as tables of a catalog: Iceberg, Delta
"""
