"""The statements of docs/ddl.md declare what the record files hold, in words that the engines parse."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissectors.options import Options
from dissectors.records import TABLES
from pipelines.formats import ddl
from pipelines.storage import filesystem
from pipelines.storage.record_files import write_empty

_COLUMN = re.compile(r'^  (["`])(?P<name>\w+)\1 (?P<type>\S+) COMMENT \'.*\',?$')
ENGINES = {"trino": ddl.TRINO, "hive": ddl.HIVE}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Schema]:
    """Table -> the columns of its files."""
    root = str(tmp_path_factory.mktemp("records"))
    files = write_empty(root, Options(tables=tuple(TABLES)), ())
    return {file.table: pq.read_schema(filesystem.join(root, file.path)) for file in files}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_statement_names_each_column_of_the_files_with_its_type(
    written: dict[str, pa.Schema], table: str, engine: str
) -> None:
    statement = ddl.create(ENGINES[engine], table, "s", "s3://bucket/records")
    declared = {m["name"]: m["type"] for line in statement.splitlines() if (m := _COLUMN.match(line))}
    types = {name: ENGINES[engine].types[kind] for name, kind in _types(written[table])}
    assert declared == types
    assert f"s3://bucket/records/{table}/" in statement


def _types(schema: pa.Schema) -> list[tuple[str, pa.DataType]]:
    return [(field.name, pa.list_(pa.string()) if pa.types.is_list(field.type) else field.type) for field in schema]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_parser_of_the_dialect_understands_a_statement(table: str, engine: str) -> None:
    sqlglot = pytest.importorskip("sqlglot", reason="the parser of SQL dialects is not installed")
    (parsed,) = sqlglot.parse(ddl.create(ENGINES[engine], table, "s", "s3://bucket/records"), read=engine)
    columns = list(parsed.find_all(sqlglot.exp.ColumnDef))
    assert [column.name for column in columns] == [column.name for column in ddl.columns(table)]
    assert all(column.comments is None and column.find(sqlglot.exp.CommentColumnConstraint) for column in columns)


@pytest.mark.parametrize("table", TABLES)
def test_comments_fit_catalogs(table: str) -> None:
    assert all(0 < len(ddl.comment(column)) <= 255 for column in ddl.columns(table))


def test_spark_understands_the_statements_and_reads_the_files_by_their_columns(spark: Any, tmp_path: Path) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()
    for table in TABLES:
        parser.parsePlan(ddl.create(ddl.HIVE, table, "s", "s3://bucket/records").removesuffix(";"))
    files = write_empty(str(tmp_path), Options(tables=tuple(TABLES)), ())
    for file in files:
        columns = ", ".join(f"`{c.name}` {ddl.HIVE.types[c.type]}" for c in ddl.columns(file.table))
        read = spark.read.schema(columns).parquet(str(tmp_path / file.path))
        assert read.count() == 0
        assert dict(read.dtypes) == dict(spark.read.parquet(str(tmp_path / file.path)).dtypes)
