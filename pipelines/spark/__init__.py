"""Captures to records, and records to tables, on Spark.

executor.py     runs the tasks of `pipelines.jobs` in a session
job.py          captures to OUT/records, and their tables as DataFrames
tasks.py        Python functions as tasks of any session, Spark Connect's too
tables.py       the aggregate tables, computed by Spark
application.py  a running Spark: its context, and its session once one is asked for
daemon.py       the process from which Spark forks its Python workers on this machine
connect.py      how long a server of Spark Connect is waited for
session.py      starts it; java.py: a Java for it; class_archive.py, train_java.py: its classes
options.py      the options of brokerscope on Spark
credentials.py  keys of object stores, from Spark's settings
package.py      this package as an archive for workers
catalog.py      records and tables as tables of a catalog: Iceberg, Delta
"""
