"""What somebody changed before something failed: a cause that the failures themselves do not tell.

A verdict names the last change before its end that may have caused it; which may have, changed_before.py says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pipelines.tables.changed_before import CAUSES, SENTENCE, Cause, told_by
from pipelines.tables.dialect import DuckDB
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import Ruling, sql_list

_NAMED_BY_ERRORS = ("errors", "not_authorized", "auth_refused", "producer_fenced")


def with_changes(capture: Capture, rulings: Iterable[Ruling]) -> list[Ruling]:
    """Verdicts, with who changed before what they are about, where that may have caused them and was captured."""
    return [_with_change(capture, ruling) for ruling in rulings]


def _with_change(capture: Capture, ruling: Ruling) -> Ruling:
    wanted = list(_causes(ruling))
    if not wanted or not capture.may_have("events"):
        return ruling
    row = ruling.rows
    streams = [name.partition("/")[0] for name in row["topics"] or ()]  # with which Iggy's topics go
    topic = f"list_contains({_list([*(row['topics'] or ()), *streams])}, topic)"
    group = f'list_contains({_list(row["groups"])}, "group")'
    user = f"list_contains({_list([client.partition(' ')[2] for client in row['clients']])}, subject)"
    where = " or ".join(f"({told_by(DuckDB(), cause.where, topic, group, user)})" for cause in wanted)
    found = capture.rows(f"""
        select {SENTENCE} as sentence from v_changes
        where result = 'ok' and ({where}) and epoch_us(time) <= {say.micros(row["last_time"])}
        order by time desc, packet desc, detail desc limit 1""")
    if not found:
        return ruling
    return ruling._replace(detail=" ".join(filter(None, (found[0]["sentence"], ruling.detail))))


def _causes(ruling: Ruling) -> Iterable[Cause]:
    """The causes that a verdict may have."""
    names: set[str] = set()
    if ruling.kind in _NAMED_BY_ERRORS:
        names = {name for name in (ruling.rows.get("cause"), *(ruling.rows.get("names") or ())) if name}
    for cause in CAUSES:
        if re.fullmatch(cause.kinds, ruling.kind) or any(re.fullmatch(cause.errors, name) for name in names):
            yield cause


def _list(names: Sequence[str] | None) -> str:
    return f"list_value{sql_list(names or [''])}"
