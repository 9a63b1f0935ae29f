"""Spider as it lies below MATE_SHARED: schemas by name, questions by split."""

import gzip
import json
from functools import cache

from golden import shared

from mate_cli.papers.dt_fixup.sql.schema import Schema


@cache
def release() -> dict[str, dict]:
    """Entries of schemas by the names of their databases."""
    return {entry["db_id"]: entry for entry in _read("tables")}


@cache
def schemas() -> dict[str, Schema]:
    return {name: Schema.from_entry(entry) for name, entry in release().items()}


@cache
def questions(split: str) -> list[dict]:
    return _read({"dev": "dev", "train": "train_spider"}[split])


def _read(name: str) -> list[dict]:
    with gzip.open(shared("data", "spider", f"{name}.json.gz")) as file:
        return json.load(file)
