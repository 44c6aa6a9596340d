"""Connections that were refused or stood still."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.sql.words import REFUSED, SILENT
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import PLACE, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.verdict import Ruling, together

_STOPPED = "zero_windows > 0 and protocol is not null"


@needs(SomeRows("connections", f"{REFUSED} or {SILENT}"))
def failed_connects(capture: Capture) -> Iterator[Ruling]:
    """Attempts that a server refused or left alone, but for those of a broker that was lost."""
    ours = f"server_port in (from v_ports) and not {capture.is_lost('server')}"
    for kind, which, verb in (("connect_refused", REFUSED, "refused"), ("connect_silent", SILENT, "did not answer")):
        failed = f"select * from v_connections where {which} and {ours}"
        for row in capture.rows(together(failed, ["server"])):
            attempts = say.counted(row["count"], "connection attempt")
            text = f"Server {row['server']} {verb} {attempts} of {say.clients(row)}"
            (later,) = capture.rows(f"""
                select min(start_time) as time from v_connections
                where server = {say.literal(row["server"])} and handshake = 'full'
                    and epoch_us(start_time) > {say.micros(row["last_time"])}""")
            if later["time"] is None:
                yield Ruling(kind, f"{text}.", row)
            else:
                after = say.span((say.micros(later["time"]) - say.micros(row["last_time"])) * 1000)
                text = f"{text}; it accepted one {after} later."
                yield Ruling(kind, text, row, severity=NOTE, advice="Nothing: it accepts connections again.")


ZERO_WINDOW = Told(
    SomeRows("connections", _STOPPED), "zero_window",
    "On {count:connection} of {who} a receiver stopped reading and announced a TCP window of zero {packets:times}.",
    f"""
        select c.* replace (coalesce(began, c.time) as time, coalesce(ended, c.until) as until), window_ns, slow_ns
        from v_connections c left join (
            select {PLACE}, min(time) as began, max(time + to_microseconds(duration_ns // 1000)) as ended
            from stalls where kind = 'zero_window' group by all
        ) s using ({PLACE}) left join (
            select {PLACE}, sum(window_ns) as window_ns, sum(total_ns) as slow_ns from v_causes group by all
        ) w using ({PLACE})
        where {_STOPPED}""",
    more="saturated(sum(zero_windows)) as packets, saturated(sum(window_ns)) as closed_ns, "
    "sum(window_ns) / sum(slow_ns)::double as share",
    detail="That took {closed_ns:ns}, {share:share} of the time of slow requests there.",
).check  # fmt: skip
"""Receivers that did not read, from when to when."""
