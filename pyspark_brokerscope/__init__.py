"""Spark finds `format("brokerscope")` here: it looks for a module pyspark_<format> with a class DefaultSource."""

from pipelines.sources.decoded import BrokerscopeDataSource as DefaultSource

__all__ = ["DefaultSource"]
