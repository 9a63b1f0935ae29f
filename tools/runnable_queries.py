"""Counts how many predicted queries of Spider's dev questions run, and how many match, by how they are searched for.

A small database is made for each schema, since Spider's own are not needed anywhere else:
python tools/runnable_queries.py RUN data/spider 100
"""

from __future__ import annotations

import random
import sqlite3
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mate_cli.papers.dt_fixup.datasets.spider.reader import Spider
from mate_cli.papers.dt_fixup.metrics.exact_set_match import score_queries
from mate_cli.papers.dt_fixup.sql.example import SchemaExample
from mate_cli.papers.dt_fixup.sql.schema import Schema
from mate_cli.papers.dt_fixup.sql.write import write
from mate_cli.pipelines.evaluation.evaluation import predict
from mate_cli.pipelines.inference.load_model import load_model
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.runs.configuration import load_config
from mate_cli.runs.folders import open_run

BEAM, ROWS, CELLS = 5, 5, (None, 0, 1, 2, "a", "b")


def small_database(schema: Schema) -> sqlite3.Connection:
    """Make a database in memory, of a few rows for each table."""
    chance, database = random.Random(schema.name), sqlite3.connect(":memory:")
    for number, table in enumerate(schema.tables[1:], 1):
        columns = [f'"{c.original}"' for c in schema.columns if c.table == number and c.original != "*"]
        if columns and not table.original.startswith("sqlite_"):
            database.execute(f'CREATE TABLE "{table.original}" ({", ".join(columns)})')
            rows = [[chance.choice(CELLS) for _ in columns] for _ in range(ROWS)]
            marks = ", ".join("?" * len(columns))
            database.executemany(f'INSERT INTO "{table.original}" VALUES ({marks})', rows)
    return database


def main(run: str, root: str, count: int) -> None:
    """Print, for each search, how many queries are found, run, and match."""
    config: Any = load_config(open_run(run).path)
    model = load_model(run, None, RuntimeOverrides(config.hardware, config.paths))
    task: Any = model.parts.task
    task.search = replace(task.search, width=BEAM)
    known = [one for one in Spider(Path(root)).examples("dev") if isinstance(one, SchemaExample) and one.query]
    examples = {one.example_id: one for one in known[:: max(1, len(known) // count)][:count]}
    databases = {one.schema.name: small_database(one.schema) for one in examples.values()}

    def runs(example: SchemaExample, sql: str) -> bool:
        database = databases[example.schema.name]
        database.set_progress_handler(lambda: 1, 10_000_000)  # a second or so
        try:
            database.execute(sql).fetchmany(1)
        except sqlite3.Error:
            return False
        return True

    with TemporaryDirectory() as folder:
        loader = model.parts.data.loader_of(list(examples.values()), "questions", Path(folder))
        for task.runnable in (False, True):
            found = {one.example_id: one for one in predict(task, loader, model.config)}
            beam = [runs(examples[name], text) for name, one in found.items() for text in one.texts(examples[name])]
            print(f"runnable={task.runnable}: {sum(beam)} of the {len(beam)} queries of all beams run")
            for guided in (False, True):
                chosen = {}
                for name, one in found.items():
                    ranked = [one.actions, *one.others] if one.actions else []
                    texts = one.texts(examples[name])
                    pairs = zip(ranked, texts, strict=True)
                    running = [actions for actions, text in pairs if guided and runs(examples[name], text)]
                    chosen[name] = replace(one, actions=next(iter([*running, *ranked]), None))
                queries = {name: one.query(examples[name]) for name, one in chosen.items()}
                ran = sum(runs(examples[n], write(q, examples[n].schema)) for n, q in queries.items() if q)
                match = score_queries(queries, examples)["exact_set_match"]
                print(
                    f"runnable={task.runnable} execution_guided={guided}: {len(queries)} questions,"
                    f" {sum(map(bool, queries.values()))} queries, {ran} run, exact-set match {100 * match:.1f}"
                )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
