"""Texts as dictionaries say what plain texts say, in memory and in files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import arrow, records
from dissectors.options import Options
from dissectors.rows import blocks
from dissectors.rows.late_names import LIKELY, Name, Names, open_keys, open_rows, resolve, unresolved, waiting
from dissectors.rows.layout import ABSENT
from dissectors.rows.texts import Texts
from dissectors.run import Run
from dissectors.wire.arrays import numbers
from pipelines.formats.parquet import ParquetWriter

SAMPLES = Path(__file__).parents[2] / "samples"
ALL = tuple(records.TABLES)


def tables(*, coded: bool) -> dict[str, pa.Table]:
    """The records of the samples."""
    captures = [str(path) for path in sorted(SAMPLES.glob("*.pcap"))]
    run = Run(captures, Options(tables=ALL, coded=coded))
    made: dict[str, list[pa.RecordBatch]] = {table: [] for table in ALL}
    for table, batch in run.records():
        batch.validate(full=True)
        made[table].append(batch)
    return {table: pa.Table.from_batches(some, records.schema(table, coded=coded)) for table, some in made.items()}


@given(st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "orders", "\0", "größe"])), max_size=40))
def test_a_dictionary_holds_each_text_once_and_gives_all_back(some: list[str | None]) -> None:
    known = Texts()
    which = np.array([ABSENT if text is None else known.of(text) for text in some], np.int64)
    places = numbers(known.count)
    column = blocks.texts(known.arena, known.starts, which.data, some.count(None), places)
    column.validate(full=True)
    assert column.type == records.CODED
    assert column.to_pylist() == some
    assert column.dictionary.to_pylist() == list(dict.fromkeys(text for text in some if text is not None))
    assert not any(places)


def test_records_are_the_same_in_memory_and_as_parquet(tmp_path: Path) -> None:
    plain, coded = tables(coded=False), tables(coded=True)
    for name, table in plain.items():
        assert coded[name].cast(table.schema).equals(table), name
        files = [tmp_path / f"{name}-{number}.parquet" for number in range(2)]
        for rows, file in zip((table, coded[name]), files, strict=True):
            with file.open("wb") as stream:
                writer = ParquetWriter(table.schema, stream)
                for batch in rows.to_batches(max_chunksize=100):
                    writer.write(batch)
                writer.close()
        one, other = map(pq.read_table, files)
        assert one.schema == other.schema, name
        assert one.equals(other), name


@pytest.mark.parametrize("coded", [False, True])
def test_names_that_are_learned_later_are_put_into_dictionaries_too(coded: bool) -> None:
    some = [unresolved("kafka/1", "one"), "as it is", None, unresolved("kafka/2", "two"), unresolved("kafka/1", "one")]
    column = arrow.numbered(pa.array(some)) if coded else pa.array(some)
    batch = pa.record_batch({"time": pa.array([0] * len(some), pa.timestamp("us", "UTC")), "topic": column})
    names = Names([Name("kafka/1", 0, "orders")])
    assert open_keys(batch) == {"kafka/1", "kafka/2", "kafka/1" + LIKELY, "kafka/2" + LIKELY}
    assert open_rows(batch).tolist() == [True, False, False, True, True]
    assert waiting(batch, names, 0)[0].tolist() == [False, False, False, True, False]
    named = resolve(batch, names)["topic"]
    assert named.type == column.type
    assert named.to_pylist() == ["orders", "as it is", None, "two", "orders"]
