"""What DuckDB and Spark say differently. A table is one SQL text for both; what differs is a method here.

Both read `count(*) filter (where …)`, `case`, `coalesce`, `nullif`, `concat_ws`, `least` and `greatest` (these three
leave nulls out), `min`, `max`, window functions, `/` as a division of doubles, and `floor`, cast to a whole number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pipelines.tables.percentiles import QUANTILE_NAMES, QUANTILES, binned

LISTED = 20  # names that a list in a table holds at most
LARGEST = (1 << 63) - 1  # where sums saturate
LARGEST_DOUBLE = "9.2e18"  # where doubles do that become whole numbers
_SO_FAR = "rows between unbounded preceding and current row"


class DuckDB:
    """DuckDB in this process: what `Spark` says otherwise. Arguments and results are SQL expressions."""

    name = "local"

    def quoted(self, name: str) -> str:
        """A column's name, also where it is a keyword."""
        return f'"{name}"'

    def micros(self, time: str) -> str:
        """Microseconds since the epoch."""
        return f"epoch_us({time})"

    def timestamp(self, micros: str) -> str:
        """The time that lies so many microseconds after the epoch."""
        return f"make_timestamptz(cast({micros} as bigint))"

    def total(self, value: str) -> str:
        """Sum of a bigint over a group; null where there is no value; saturates where it does not fit."""
        fitting = f"greatest(least(sum({value}), {LARGEST}), -{LARGEST})"  # these leave nulls out
        return f"case when count({value}) > 0 then cast({fitting} as bigint) end"

    def plus(self, *values: str) -> str:
        """Sum of bigints of one row; saturates where it does not fit."""
        terms = " + ".join(f"cast({value} as hugeint)" for value in values)
        return f"cast(greatest(least({terms}, {LARGEST}), -{LARGEST}) as bigint)"

    def percentiles(self, source: str, keys: Sequence[str], values: Mapping[str, str]) -> str:
        """A SELECT of keys and `<name>_p50_ns` … `<name>_p999_ns`, exact, for each group of the rows of `source`.

        values: name -> a bigint. Of n values in order the percentile is number ceil(quantile * n), from 1: always one
        of them, as quantile_disc has it; null where there is none. A group without any value may have no row.
        """
        group, wanted = ", ".join(keys), ", ".join(map(str, QUANTILES))
        lists = ", ".join(f"quantile_disc({value}, [{wanted}]) as {name}_list" for name, value in values.items())
        columns = ", ".join(
            f"{name}_list[{at}] as {name}_{quantile}_ns"
            for name in values
            for at, quantile in enumerate(QUANTILE_NAMES, 1)
        )
        return f"select {group}, {columns} from (select {group}, {lists} from {source} group by {group})"

    def listed(self, value: str) -> str:
        """The distinct texts of a group, sorted, at most LISTED."""
        return f"{self.numbers(value)}[1:{LISTED}]"

    def numbers(self, value: str) -> str:
        """The distinct numbers of a group, sorted."""
        return f"coalesce(list(distinct {value} order by {value}) filter (where {value} is not null), [])"

    def in_order(self, value: str, order: str) -> str:
        """The values of a group, the one with the least number first."""
        return f"list({value} order by {order})"

    def first(self, value: str, *order: str) -> str:
        """The value, be it null, of the row of a group that comes first. No expression of `order` may be null."""
        return f"arg_min_null({value}, {self.row(*order)})"

    def latest(self, value: str, window: str) -> str:
        """The last value that is not null, up to a row of a window (`partition by … order by …`)."""
        return f"last_value({value} ignore nulls) over ({window} {_SO_FAR})"

    def row(self, *values: str) -> str:
        """Several values as one, never null; two are equal where all values are, and null equals null."""
        return f"row({', '.join(values)})"

    def member(self, json: str, name: str) -> str:
        """The value of a member of a JSON object, as text."""
        return f"({json}->>'{name}')"

    def each(self, values: str) -> str:
        """One row for each text of a list; one row with null for an empty one or none."""
        return f"unnest(case when len({values}) > 0 then {values} else [null] end)"

    def length(self, values: str) -> str:
        """How many elements a list has; null of none."""
        return f"len({values})"

    def first_of_list(self, values: str) -> str:
        """The first element of a list; null of an empty one and of none."""
        return f"{values}[1]"

    def once(self, name: str, query: str) -> str:
        """`NAME as (…)`: a part of a WITH that others read more than once, and that is computed once."""
        return f"{name} as materialized ({query})"

    def anew(self, name: str) -> str:
        """`NAME as`, for a part of a WITH that costs less to compute again than to keep, where that can be said."""
        return f"{name} as not materialized"


class Spark(DuckDB):
    """Spark SQL."""

    name = "spark"

    def quoted(self, name: str) -> str:
        return f"`{name}`"

    def micros(self, time: str) -> str:
        return f"unix_micros({time})"

    def timestamp(self, micros: str) -> str:
        return f"timestamp_micros({micros})"

    def total(self, value: str) -> str:
        return f"case when count({value}) > 0 then coalesce(try_sum({value}), {LARGEST}) end"

    def plus(self, *values: str) -> str:
        first, *rest = values
        for value in rest:
            first = f"try_add({first}, {value})"
        return f"coalesce({first}, {LARGEST})"

    def percentiles(self, source: str, keys: Sequence[str], values: Mapping[str, str]) -> str:
        return binned(source, keys, values)

    def listed(self, value: str) -> str:
        return f"slice({self.numbers(value)}, 1, {LISTED})"

    def numbers(self, value: str) -> str:
        return f"array_sort(collect_set({value}))"

    def in_order(self, value: str, order: str) -> str:
        return f"transform(array_sort(collect_list(struct({order}, {value}))), pair -> pair.{value})"

    def first(self, value: str, *order: str) -> str:
        return f"min_by({value}, {self.row(*order)})"

    def latest(self, value: str, window: str) -> str:
        return f"last_value({value}) ignore nulls over ({window} {_SO_FAR})"

    def row(self, *values: str) -> str:
        return f"struct({', '.join(values)})"

    def member(self, json: str, name: str) -> str:
        return f"get_json_object({json}, '$.{name}')"

    def each(self, values: str) -> str:
        return f"explode_outer({values})"

    def length(self, values: str) -> str:
        return f"cast(array_size({values}) as bigint)"

    def first_of_list(self, values: str) -> str:
        return f"get({values}, 0)"

    def once(self, name: str, query: str) -> str:
        # Spark computes a part again for each reader unless that might give other rows: a condition on a random
        # number, here one that is always true, has it shuffle the rows once for all readers.
        return f"{name} as (select * from ({query}) where rand() < 2)"

    def anew(self, name: str) -> str:
        return f"{name} as"


Dialect = DuckDB
"""Either of the two, for queries that both run."""


def double(value: float) -> str:
    """A number as a literal of type double."""
    return f"{value!r}e0"
