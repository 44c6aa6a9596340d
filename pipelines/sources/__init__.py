"""The Spark data sources `pcap` and `brokerscope`. Their options stand in pipelines/spark/options.py.

files.py       the files that options name
packets.py     `pcap`: packets as rows
decoded.py     `brokerscope`: record tables, aggregate tables and verdicts
columns.py     what columns these have
parts.py       how captures are shared out to tasks, and what a task makes of its part
pushdown.py    filters of a query that the source takes from Spark
names.py       names of topic ids that other tasks' captures report
stream.py      `brokerscope` as a stream
carried.py     the state of a stream, as it lies in the checkpoint
going_on.py    decodes what is new of a capture point, from that state
contents.py    captures that are values of a column
register.py    both sources, in a session that somebody else has started
"""
