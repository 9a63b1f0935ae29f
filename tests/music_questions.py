"""Questions about a database of singers and songs, as examples and in Spider's format."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from mate_cli.papers.dt_fixup.sql.example import GoldQuery, SchemaExample, schema_example, schema_table
from mate_cli.papers.dt_fixup.sql.schema import Schema

ENTRY = {
    "db_id": "music",
    "table_names": ["singer", "song"],
    "table_names_original": ["singer", "song"],
    "column_names": [[-1, "*"], [0, "id"], [0, "name"], [0, "age"], [1, "title"], [1, "singer"], [1, "sales"]],
    "column_names_original": [[-1, "*"], [0, "id"], [0, "name"], [0, "age"], [1, "title"], [1, "singer"], [1, "sales"]],
    "column_types": ["text", "number", "text", "number", "text", "number", "number"],
    "primary_keys": [1],
    "foreign_keys": [[5, 1]],
}
QUESTIONS = {
    "how many singers are there?": "SELECT count(*) FROM singer",
    "what are the names of all singers?": "SELECT name FROM singer",
    "which title sold most?": "SELECT title FROM song ORDER BY sales DESC LIMIT 1",
    "names of singers of songs above 5 sales": (
        "SELECT T1.name FROM singer AS T1 JOIN song AS T2 ON T1.id = T2.singer WHERE T2.sales > 5"
    ),
    "average age by name": "SELECT avg(age), name FROM singer GROUP BY name",
}


def examples() -> list[SchemaExample]:
    """Return the questions with their queries."""
    schema = Schema.from_entry(ENTRY)
    table = schema_table(schema)
    return [
        schema_example(str(place), question, schema, table, GoldQuery.build(sql, schema))
        for place, (question, sql) in enumerate(QUESTIONS.items())
    ]


def write_database(path: Path, *statements: str) -> Path:
    """Write a SQLite database by SQL statements, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path


def write_release(root: Path) -> Path:
    """Write a release whose splits train and dev contain the same questions.

    It contains no parsed queries.
    """
    root.mkdir(parents=True, exist_ok=True)
    asked = [{"db_id": "music", "question": question, "query": sql} for question, sql in QUESTIONS.items()]
    for name, content in (("tables", [ENTRY]), ("train_spider", asked), ("dev", asked)):
        (root / f"{name}.json").write_text(json.dumps(content))
    return root
