"""SQL that more than one place needs: each word is defined here once.

words       server, service time, barrier, excused error: what they mean in SQL
database    DuckDB in this process, closed to files, network and settings
where       a condition that a user wrote, checked before anything is read
conditions  what --since, --topic, --api … mean for each record table
selection   a part of OUT: the records that a report or answer is about
"""
