"""When rows go out, in which order and with which names."""

import pyarrow as pa

from dissectors.engine import Decoded
from dissectors.limits import Limits
from dissectors.records import Conn, Error
from dissectors.release import DecodedRows, RowRelease
from dissectors.rows.late_names import Name, unresolved
from dissectors.rows.sink import to_batch

S = 1_000_000_000
CONN = Conn("site", "10.0.0.2", 40000, "10.0.0.1", 9092, 0, "kafka")


def errors(*rows: tuple[int, str]) -> pa.RecordBatch:
    """Rows of `errors`: (second, topic)."""
    return to_batch("errors", [Error(CONN, topic=topic, time=time * S, packet_ref=time) for time, topic in rows], ["f"])


def release(clock: int, rows: list[tuple[int, str]], *reports: tuple[str, int, str]) -> DecodedRows:
    names = [Name(key, time * S, name) for key, time, name in reports]
    return DecodedRows(clock * S, [Decoded([("errors", errors(*rows))] if rows else [], names)])


def topics(batches: list[tuple[str, pa.RecordBatch]]) -> list[str]:
    return [topic for _, batch in batches for topic in batch.column("topic").to_pylist()]


def test_rows_of_several_processes_go_out_in_time_order() -> None:
    rows = RowRelease(Limits())
    one, two = release(9, [(1, "a"), (3, "c")]), release(9, [(2, "b"), (4, "d")])
    assert topics(list(rows.take(DecodedRows(9 * S, one.decoded + two.decoded)))) == ["a", "b", "c", "d"]


def test_only_the_row_whose_name_is_missing_waits_and_goes_out_with_it() -> None:
    rows = RowRelease(Limits())
    assert topics(list(rows.take(release(9, [(1, unresolved("id", "7")), (2, "b")])))) == ["b"]
    assert topics(list(rows.take(release(20, [(15, "c")], ("other", 11, "x"))))) == ["c"]
    assert topics(list(rows.take(release(30, [(25, "d")], ("id", 21, "orders"))))) == ["orders", "d"]
    assert list(rows.finish()) == []


def test_a_row_whose_name_never_comes_goes_out_with_its_id_after_five_minutes() -> None:
    rows = RowRelease(Limits())
    held = release(9, [(1, unresolved("id", "7"))])
    assert topics(list(rows.take(held))) == []
    assert topics(list(rows.take(release(301, [])))) == []
    assert topics(list(rows.take(release(302, [])))) == ["7"]


def test_at_the_end_nothing_waits() -> None:
    rows = RowRelease(Limits())
    assert topics(list(rows.take(release(9, [(1, unresolved("id", "7"))])))) == []
    assert topics(list(rows.finish())) == ["7"]


def test_many_rows_wait_in_a_file() -> None:
    rows = RowRelease(Limits()._replace(spill_bytes=1))
    for second in range(1, 4):
        assert topics(list(rows.take(release(9, [(second, unresolved("id", str(second)))])))) == []
    assert topics(list(rows.take(release(30, [], ("id", 2, "orders"))))) == ["orders"] * 3
    assert topics(list(rows.take(release(40, [(31, unresolved("id", "7"))])))) == ["orders"]


def test_a_waiting_row_brings_no_texts_of_the_rows_that_went_before_it() -> None:
    rows = RowRelease(Limits())
    for second in range(1, 50):
        named = [(f"id{second - 1}", second, "orders")]
        out = release(second, [(second, unresolved("id", str(second))), *[(second, "b")] * 5], *named)
        texts = pa.array([f"client-{second}-{n}" for n in range(6)]).dictionary_encode()
        ((table, batch),) = out.decoded[0].batches
        out.decoded[0].batches[:] = [
            (table, batch.set_column(batch.schema.get_field_index("client_id"), "client_id", texts))
        ]
        for _, went in rows.take(out):
            client_ids = went.column("client_id")
            assert len(client_ids.dictionary) <= len(client_ids)
