"""From records to answers: the command line, the Spark job, the aggregate tables and the report."""
