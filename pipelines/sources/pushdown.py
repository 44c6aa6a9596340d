"""Filters of a query that the data source `brokerscope` takes from Spark.

A row that they leave out is not given to Java. Where they say which ports or addresses a connection has, what belongs
to others is not decoded; where they say the capture point, others are not read.

Spark asks a reader for filters only where spark.sql.python.filterPushdown.enabled is true, and refuses readers that
would take any where it is false, as it is by default. So the reader that takes them is made only where Spark asks.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource as spark

from pipelines.sql.conditions import WILD

ENABLED = "spark.sql.python.filterPushdown.enabled"
_ASKS = "data_source_pushdown_filters.py"  # the module of PySpark that calls a source for a reader that takes filters
_COMPARED = {
    spark.EqualTo: pc.equal,
    spark.GreaterThan: pc.greater,
    spark.GreaterThanOrEqual: pc.greater_equal,
    spark.LessThan: pc.less,
    spark.LessThanOrEqual: pc.less_equal,
}
_OF_TEXT = {
    spark.StringStartsWith: pc.starts_with,
    spark.StringEndsWith: pc.ends_with,
    spark.StringContains: pc.match_substring,
}
_PORTS, _HOSTS, _SITE = ("client_port", "server_port"), ("client_ip", "server_ip"), "site"


class Ends(NamedTuple):
    """What one end of each connection is to be: one of these networks or ports."""

    hosts: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


def is_asked_for_filters() -> bool:
    """Whether Spark is about to hand filters to the reader that this process makes."""
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith(_ASKS):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def can_test(test: spark.Filter, schema: pa.Schema) -> bool:
    """Whether `passes` knows a filter over columns of a schema."""
    inner: Any = test.child if isinstance(test, spark.Not) else test
    if len(inner.attribute) != 1 or inner.attribute[0] not in schema.names:
        return False
    kind = schema.field(inner.attribute[0]).type
    if isinstance(inner, (spark.IsNull, spark.IsNotNull)):
        return True
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        return False
    if type(inner) in _OF_TEXT:
        return pa.types.is_string(kind) and isinstance(inner.value, str)
    values = inner.value if isinstance(inner, spark.In) else [inner.value]
    return type(inner) in (*_COMPARED, spark.EqualNullSafe, spark.In) and all(_fits(value, kind) for value in values)


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Whether a value can be compared with a column."""
    if isinstance(value, datetime) != pa.types.is_timestamp(kind) and value is not None:
        return False
    if isinstance(value, datetime) and value.tzinfo is None:
        return False
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        return bool(pa.scalar(value, kind).as_py() == value)
    return False


def passes(batch: pa.RecordBatch, tests: Iterable[spark.Filter]) -> pa.RecordBatch:
    """The rows of a batch for which all filters are true, and not null."""
    for test in tests:
        if batch.num_rows:
            batch = batch.filter(_told(batch, test))
    return batch


def _told(batch: pa.RecordBatch, test: Any) -> pa.Array:
    """What a filter says of each row: true, false or null."""
    if isinstance(test, spark.Not):
        return pc.invert(_told(batch, test.child))
    column = batch.column(test.attribute[0])
    if isinstance(test, spark.IsNull):
        return column.is_null()
    if isinstance(test, spark.IsNotNull):
        return column.is_valid()
    if isinstance(test, spark.In):
        known = [value for value in test.value if value is not None]
        found = pc.is_in(column, pa.array(known, column.type))
        unknown = pa.scalar(None, pa.bool_())
        other = unknown if len(known) < len(test.value) else pa.scalar(value=False)
        return pc.if_else(column.is_valid(), pc.if_else(found, pa.scalar(value=True), other), unknown)
    if isinstance(test, spark.EqualNullSafe):
        if test.value is None:
            return column.is_null()
        return pc.fill_null(pc.equal(column, pa.scalar(test.value, column.type)), fill_value=False)
    if type(test) in _OF_TEXT:
        return _OF_TEXT[type(test)](column, test.value)
    return _COMPARED[type(test)](column, pa.scalar(test.value, column.type))


def ends_of(tests: Iterable[Any]) -> tuple[Ends, ...]:
    """What filters say of the ends of connections, each of them."""
    out = []
    for test in tests:
        values = _values(test)
        if values and test.attribute[0] in _PORTS:
            out.append(Ends(ports=tuple(value for value in values if isinstance(value, int))))
        elif values and test.attribute[0] in _HOSTS:
            with suppress(ValueError):  # no address, so no row has it
                out.append(Ends(hosts=tuple(str(ipaddress.ip_network(value)) for value in values)))
    return tuple(out)


def site_of(tests: Iterable[Any]) -> str | None:
    """The capture points that filters ask for, as the option `sites` names them; None for all."""
    for test in tests:
        values = _values(test)
        if values and test.attribute[0] == _SITE and not any("," in value or WILD.search(value) for value in values):
            return ",".join(values)
    return None


def _values(test: spark.Filter) -> Sequence[Any]:
    """The values of which a column has one, where a filter says such; none of any other filter."""
    if isinstance(test, (spark.EqualTo, spark.EqualNullSafe)):
        return [] if test.value is None else [test.value]
    return [value for value in test.value if value is not None] if isinstance(test, spark.In) else []
