"""Connections that were refused or stood still."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.sql.words import REFUSED, SILENT
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE
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


@needs(SomeRows("connections", _STOPPED))
def zero_window(capture: Capture) -> Iterator[Ruling]:
    """Receivers that did not read."""
    still = f"select * from v_connections where {_STOPPED}"
    for row in capture.rows(together(still, ["protocol"], "saturated(sum(zero_windows)) as packets")):
        (cost,) = capture.rows(f"""
            select saturated(sum(window_ns)) as closed_ns, sum(total_ns)::double as total_ns
            from v_causes semi join ({still}) using (protocol, site, connection, incarnation)
            where protocol = {say.literal(row["protocol"])}""")
        yield Ruling(
            "zero_window",
            f"On {say.counted(row['count'], 'connection')} of {say.clients(row)} a receiver stopped reading "
            f"and announced a TCP window of zero {say.times(row['packets'])}.",
            row,
            f"That took {say.span(cost['closed_ns'])}, {say.share(cost['closed_ns'], cost['total_ns'])} of the time of "
            "slow requests there."
            if cost["closed_ns"]
            else None,
        )
