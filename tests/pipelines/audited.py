"""What `audit` says of record tables that a test has in memory."""

from pipelines.answers.records import Relations, database_of
from pipelines.sql.views import Views
from pipelines.tables.audit import VIEWS, Statement, audit


def audited(tables: Relations, cut: str = "") -> list[Statement]:
    """All statements on these records, losses first. cut: what was asked for, where others are left out."""
    with database_of(tables) as duckdb:
        return audit(Views(duckdb, VIEWS), cut)
