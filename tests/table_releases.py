"""Small releases of the datasets without passages, in their original formats."""

import json
from collections.abc import Callable
from pathlib import Path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    return path


TABFACT_TABLES = {
    "2-1-1.html.csv": 'player#goals\r\nann lee#3\r\nbob "b" stone#\r\n',
    "2-1-2.html.csv": "year#city\r\n1975#oslo\r\n1980#rome , italy\r\n",
    "2-1-3.html.csv": "year#city\r\n1990#bern\r\n",
}
TABFACT = {
    "train": {"2-1-1.html.csv": [["ann lee score 3", "bob score 4", "ann score most"], [1, 0, 1], "players"]},
    "val": {"2-1-3.html.csv": [["bern be first"], [1], "cities"]},
    "test": {"2-1-2.html.csv": [["rome be first"], [0], "cities"]},
}
TABFACT_LISTS = {
    "simple_ids": ["2-1-1.html.csv"],
    "complex_ids": ["2-1-3.html.csv"],
    "complex_test_id": ["2-1-2.html.csv"],
}


def write_tabfact(root: Path) -> Path:
    """Write a small TabFact release."""
    for name, text in TABFACT_TABLES.items():
        write(root / "data" / "all_csv" / name, text)
    for name, entries in TABFACT.items():
        write(root / "tokenized_data" / f"{name}_examples.json", json.dumps(entries))
    for name, keys in {**TABFACT_LISTS, "small_test_id": ["2-1-1.html.csv", "2-1-2.html.csv"]}.items():
        write(root / "data" / f"{name}.json", json.dumps(keys))
    return root


TABFACT_ORIGINAL = {
    "r1": {"2-1-1.html.csv": [["Ann Lee scored 3.", "Bob scored 4."], [1, 0], "players"]},
    "r2": {
        "2-1-2.html.csv": [["Rome was first."], [0], "cities"],
        "2-1-3.html.csv": [["Bern was the first of all."], [1], "cities"],
    },
}
TABFACT_IDS = {"train": "2-1-1.html.csv", "val": "2-1-3.html.csv", "test": "2-1-2.html.csv"}


def write_original_tabfact(root: Path) -> Path:
    """Write TabFact with its original statements, and the table ids of each split."""
    for name, entries in TABFACT_ORIGINAL.items():
        write(root / "collected_data" / f"{name}_training_all.json", json.dumps(entries))
    for name, key in TABFACT_IDS.items():
        write(root / "data" / f"{name}_id.json", json.dumps([key]))
    return write_tabfact(root)


WIKISQL_TABLES = {
    "1-1-1": {
        "header": ["Player", "No.", "Position", "Years"],
        "types": ["text", "real", "text", "text"],
        "rows": [
            ["Ann Lee", 3, "Guard", "2004-05"],
            ["Bob Stone", 21, "Forward", "2006 - 07"],
            ["Cy Young", 21, "Guard", "2008"],
        ],
    },
    "1-1-2": {"header": ["Year", "City"], "types": ["real", "text"], "rows": []},
}


def sql(column: int, aggregation: int, *conditions: list) -> dict:
    return {"sel": column, "agg": aggregation, "conds": list(conditions)}


WIKISQL = {
    "train": [
        ("1-1-1", "who is number 3?", sql(0, 0, [1, 0, "3"])),
        ("1-1-1", "how many guards?", sql(0, 3, [2, 0, "guard"])),
        ("1-1-1", "what is the highest number?", sql(1, 1)),
        ("1-1-1", "who is a center?", sql(0, 0, [2, 0, "center"])),
        ("1-1-2", "when was it in Oslo?", sql(0, 0, [1, 0, "Oslo"])),
    ],
    "dev": [("1-1-1", "which guards?", sql(0, 0, [2, 0, "Guard"]))],
    "test": [("1-1-2", "which years?", sql(0, 0, [0, 1, 1990]))],
}


def lines(entries: list[dict]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def write_wikisql(root: Path) -> Path:
    """Write a small WikiSQL release with a table without rows."""
    for split, questions in WIKISQL.items():
        tables = dict.fromkeys(table_id for table_id, _, _ in questions)
        entries = [
            {"phase": 1, "table_id": table_id, "question": question, "sql": query}
            for table_id, question, query in questions
        ]
        write(root / f"{split}.jsonl", lines(entries))
        write(root / f"{split}.tables.jsonl", lines([{"id": key, **WIKISQL_TABLES[key]} for key in tables]))
    return root


def write_sqa(root: Path) -> Path:
    """Write a small SQA release with sequences of two questions and of one question."""
    write(root / "table_csv" / "203_1.csv", "Player,Goals\nAnn Lee,3\nBob Stone,4\n")
    header = "id\tannotator\tposition\tquestion\ttable_file\tanswer_coordinates\tanswer_text\n"
    rows = [
        "nt-1\t0\t0\twho plays?\ttable_csv/203_1.csv\t\"['(0, 0)', '(1, 0)']\"\t\"['Ann Lee', 'Bob Stone']\"\n",
        "nt-1\t0\t1\twho scored 4?\ttable_csv/203_1.csv\t\"['(1, 0)']\"\t\"['Bob Stone']\"\n",
    ]
    write(root / "random-split-1-train.tsv", header + "".join(rows))
    write(root / "random-split-1-dev.tsv", header + rows[0].replace("nt-1", "nt-2"))
    return root


def write_wtq(root: Path) -> Path:
    """Write WikiTableQuestions with an answer in two cells, and an answer in no cell."""
    write(root / "csv" / "200-csv" / "1.csv", '"Player","Goals"\n"Ann","3"\n"Bob","3"\n')
    header = "id\tutterance\tcontext\ttargetValue\n"
    rows = [
        ("who scored first?", "Ann"),
        ("how many goals for Ann?", "3"),
        ("where?", "Oslo"),
        ("how many players?", "2"),
    ]
    train = "".join(f"nt-{n}\t{text}\tcsv/200-csv/1.csv\t{target}\n" for n, (text, target) in enumerate(rows))
    write(root / "data" / "random-split-1-train.tsv", header + train)
    write(root / "data" / "random-split-1-dev.tsv", header + "nt-9\twho?\tcsv/200-csv/1.csv\tBob\n")
    return root


WRITERS: dict[str, Callable[[Path], Path]] = {
    "sqa": write_sqa,
    "wtq": write_wtq,
    "tabfact": write_tabfact,
    "wikisql": write_wikisql,
}


def edit_lines(path: Path, change: Callable[[list], None]) -> None:
    """Change a file of JSON lines in place."""
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    change(entries)
    path.write_text(lines(entries), encoding="utf-8")
