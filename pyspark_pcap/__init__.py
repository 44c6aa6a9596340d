"""Spark finds `format("pcap")` here: it looks for a module pyspark_<format> with a class DefaultSource."""

from pipelines.sources.packets import PcapDataSource as DefaultSource

__all__ = ["DefaultSource"]
