"""Small HybridQA folders to damage."""

import bz2
import gzip
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

TABLES = {
    "Winners_0": {
        "title": "Winners",
        "header": [["Year", []], ["Player", ["/wiki/Player"]]],
        "data": [
            [["1975", []], ["Ann Lee", ["/wiki/Ann_Lee"]]],
            [["1980", []], ["Bob Stone", ["/wiki/Bob_Stone", "/wiki/Bob_Stone"]]],
        ],
    },
    'Rivers_"é"_0': {
        "title": "Rivers",
        "header": [["River", []], ["Length", []]],
        "data": [[["Alva", ["/wiki/Alva"]], ["120", []]]],
    },
}
PASSAGES = {
    "Winners_0": {
        "/wiki/Ann_Lee": "Ann Lee was born in Oslo .",
        "/wiki/Bob_Stone": "Bob Stone boxes .",
        "/wiki/X": "x",
    },
    'Rivers_"é"_0': {"/wiki/Alva": "The Alva is cold ."},
}
QUESTIONS = {
    "train": [
        ("t1", "who won in 1975 ?", "Winners_0", "Ann Lee", [["Ann Lee", [0, 1], None, "table"]]),
        ("t2", "where was the winner of 1975 born ?", "Winners_0", "Oslo", [["x", [0, 1], "/wiki/Ann_Lee", "passage"]]),
    ],
    "dev": [("d1", "how many rivers are there ?", 'Rivers_"é"_0', "one", [])],
    "test": [("e1", "how long is the Alva ?", 'Rivers_"é"_0', None, [])],
}


def write_release(root: Path) -> Path:
    """Write the whole release as folders; dev and test share a table on purpose."""
    for folder, contents in (("tables_tok", TABLES), ("request_tok", PASSAGES)):
        (root / folder).mkdir(parents=True)
        for name, content in contents.items():
            (root / folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    (root / "released_data").mkdir()
    for split, questions in QUESTIONS.items():
        write_questions(root, split, questions)
    return root


def write_questions(root: Path, split: str, questions: list) -> None:
    keys = ("question_id", "question", "table_id", "answer-text", "answer-node")
    entries = [
        {key: value for key, value in zip(keys, question, strict=True) if value is not None} for question in questions
    ]
    plain = [{key: value for key, value in entry.items() if key != "answer-node"} for entry in entries]
    folder = root / "released_data"
    (folder / f"{split}.json").write_text(json.dumps(plain), encoding="utf-8")
    (folder / f"{split}.traced.json").write_text(json.dumps(entries), encoding="utf-8")


def everything(dataset) -> dict[str, list]:
    return {split: dataset.examples(split) for split in dataset.splits}


def compress(file: Path, suffix: str) -> None:
    """Pack a single file: .gz, .bz2, .xz, or "" to leave it."""
    packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    if suffix:
        file.with_name(f"{file.name}{suffix}").write_bytes(packers[suffix](file.read_bytes()))
        file.unlink()


def edit(path: Path, change) -> None:
    """Change a JSON file in place."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def replaced(content, path: list[int], junk):
    """Put junk in place of one part of a JSON value: `path` says which child to go down to, again and again."""
    if not path or not isinstance(content, dict | list) or not content:
        return junk
    keys = list(content) if isinstance(content, dict) else range(len(content))
    key = keys[path[0] % len(keys)]
    content[key] = replaced(content[key], path[1:], junk)
    return content


def pack(root: Path, folder: str, suffix: str, inside: str = "") -> Path:
    """Replace a folder by an archive of it."""
    source, archive = root / folder, root / f"{folder}{suffix}"
    members = sorted(source.iterdir())
    if suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            for path in members:
                target.write(path, f"{inside}{folder}/{path.name}")
    else:
        with tarfile.open(archive, f"w:{suffix.rsplit('.', 1)[1].replace('tgz', 'gz')}") as target:
            for path in members:
                target.add(path, f"{inside}{folder}/{path.name}")
    for path in members:
        path.unlink()
    source.rmdir()
    return archive
