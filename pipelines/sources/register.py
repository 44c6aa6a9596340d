"""`format("brokerscope")` and `format("pcap")` in a session that somebody else has started.

Spark finds these sources by itself where the Python that it starts can import brokerscope. That is PYSPARK_PYTHON, or
the first python3 in PATH, which need not be the Python that runs the program. Where it cannot, Spark knows no more than
that there is no such source (DATA_SOURCE_NOT_FOUND).
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from dissectors.errors import BrokerscopeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LACKING = re.compile(r"No module named '([\w.]+)'")


def register(spark: SparkSession) -> None:
    """Make `format("brokerscope")` and `format("pcap")` work in a session, and filters of queries reach the first.

    Raises BrokerscopeError, which says what to set, where the Python of the session cannot import brokerscope.
    """
    from pipelines.sources.decoded import BrokerscopeDataSource
    from pipelines.sources.packets import PcapDataSource
    from pipelines.sources.pushdown import ENABLED

    spark.dataSource.register(BrokerscopeDataSource)
    spark.dataSource.register(PcapDataSource)
    spark.conf.set(ENABLED, "true")
    try:
        assert spark.read.format("pcap").load(".").columns  # Spark asks its Python for them, and reads nothing
    except Exception as error:  # Connect and the JVM have different ones
        lacking = _LACKING.search(str(error))
        if lacking is None:
            raise
        raise BrokerscopeError(
            f"the Python that Spark starts cannot import {lacking[1]}: set PYSPARK_PYTHON={sys.executable} before the"
            " session begins, or spark.pyspark.python where spark-submit begins it; on other machines install"
            " brokerscope there, or bring it with `brokerscope package`"
        ) from error
