"""Parsers of the HybridQA release files. Every invalid entry is reported as a problem.

Source: wenhuchen/HybridQA (released_data) and wenhuchen/WikiTables-WithLinks (tables_tok, request_tok).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from mate_cli.data.check import Problem, is_ragged, parse_json, parse_json_as
from mate_cli.data.datasets.file_formats import DamagedEntryError, note_damage, read_entries, require_text, require_type
from mate_cli.tables.table import Cell, Table


@dataclass(frozen=True, slots=True)
class HybridQAQuestion:
    """A question of HybridQA with its answer, as stated in the release.

    Args:
        question_id: id of the question.
        text: text of the question.
        table_id: id of its table.
        answer: text of the answer. None if the release withholds it.
        source: source of the answer: "table", "passage" or "missing". Empty without an answer.
        tags: part-of-speech tags of the words, separated by spaces. Empty if the release has none.
    """

    question_id: str
    text: str
    table_id: str
    answer: str | None = None
    source: str = ""
    tags: str = ""


def parse_questions(file: str, contents: Mapping[str, bytes], problems: list[Problem]) -> list[HybridQAQuestion]:
    """Return the valid questions of a HybridQA split, each with the source of its answer.

    The source of an answer is taken from `<split>_reference.json`, else from the first answer node in
    `<split>.traced.json`, else "missing". Source: wenhuchen/HybridQA, the rule behind its dev_reference.json.

    Args:
        file: name of the question file.
        contents: contents of the files of `released_data`, by name.
        problems: list that receives the problems of invalid questions.
    """
    stem = file.removesuffix(".json").removesuffix(".traced")
    traced = f"{stem}.traced.json"
    name = file if file in contents else traced
    entries = _entries(name, contents, problems)
    sources = _sources(stem, entries if name == traced else _entries(traced, contents, problems), contents, problems)
    questions: dict[str, HybridQAQuestion] = {}
    for index, entry in enumerate(entries):
        question = _question(name, index, entry, sources, problems)
        if question is not None and question.question_id in questions:
            problems.append(Problem(name, question.question_id, "the question id occurs twice"))
        elif question is not None:
            questions[question.question_id] = question
    return list(questions.values())


def _entries(name: str, contents: Mapping[str, bytes], problems: list[Problem]) -> list[Any]:
    content = contents.get(name)
    return [] if content is None else [entry for _, entry in read_entries(name, content, problems)]


def _question(
    file: str, index: int, entry: Mapping[str, Any], sources: Mapping[str, str], problems: list[Problem]
) -> HybridQAQuestion | None:
    name = entry.get("question_id")
    key = name if isinstance(name, str) else f"entry {index}"
    lacking = [name for name in ("question_id", "question", "table_id") if not isinstance(entry.get(name), str)]
    if lacking:
        problems.append(Problem(file, key, f"has no {', '.join(lacking)}"))
        return None
    answer, tags = entry.get("answer-text"), str(entry.get("question_postag") or "")
    if answer is not None and (not isinstance(answer, str) or not answer.strip()):
        fault = "empty" if isinstance(answer, str) else "not text"
        problems.append(Problem(file, key, f"the answer is {fault}"))
        return None
    source = "" if answer is None else sources.get(key, "missing")
    return HybridQAQuestion(key, entry["question"], entry["table_id"], answer, source, tags)


def _sources(stem: str, traced: list[Any], contents: Mapping[str, bytes], problems: list[Problem]) -> dict[str, str]:
    reference = parse_reference(f"{stem}_reference.json", contents, problems)
    if reference is not None:
        return {str(key): source for source in ("table", "passage") for key in reference[source]}
    name = f"{stem}.traced.json"
    sources: dict[str, str] = {}
    for index, entry in enumerate(traced):
        with note_damage(name, f"entry {index}", problems):
            sources |= {require_text(entry, "question_id"): node[3] for node in answer_nodes(entry)[:1]}
    return sources


def answer_nodes(entry: Mapping[str, Any]) -> list[tuple[str, Any, str | None, str]]:
    """Return the cells and passages that contain a question's answer ("answer nodes").

    Each node has its text, (row, column), link and source ("table" or "passage").

    Raises:
        DamagedEntryError: an answer node is invalid.
    """
    nodes = []
    for node in require_type(entry.get("answer-node", []), list, "answer-node"):
        match node:
            case [str(text), place, (str() | None) as link, str(source)]:
                nodes.append((text, place, link, source))
            case _:
                raise DamagedEntryError(f"answer node {node!r:.80} is not [text, position, link, type]")
    return nodes


def parse_reference(name: str, contents: Mapping[str, bytes], problems: list[Problem]) -> dict[str, Any] | None:
    """Parse `<split>_reference.json`, with the gold answer of each question and its source.

    The source is "table" or "passage".

    The file is {"reference": {id: answer}, "table": [ids], "passage": [ids]}.

    Args:
        name: name of the reference file.
        contents: contents of the files of `released_data`, by name.
        problems: list that receives the problems.

    Returns:
        The content of the file, or None if the file is missing or invalid.
    """
    if name not in contents:
        return None
    content = parse_json(name, contents[name], problems)
    if content is None:
        return None
    kinds = {"reference": dict, "table": list, "passage": list}
    if not isinstance(content, dict) or not all(isinstance(content.get(key), kind) for key, kind in kinds.items()):
        problems.append(Problem(name, "", "is not an object with reference (object), table and passage (lists)"))
        return None
    return content


def parse_hybridqa_table(table_id: str, content: bytes, problems: list[Problem]) -> Table | None:
    """Parse a HybridQA table from a file of the folder `tables_tok`, without its passages.

    Append a problem and return None if it is damaged.

    Args:
        table_id: id of the table.
        content: content of the file.
        problems: list that receives the problem.
    """
    file = f"tables_tok/{table_id}.json"
    raw = parse_json(file, content, problems, table_id)
    if raw is None:
        return None
    try:
        header = tuple(_cell(cell) for cell in raw["header"])
        rows = tuple(tuple(_cell(cell) for cell in row) for row in raw["data"])
    except (KeyError, TypeError, ValueError) as error:
        problems.append(Problem(file, table_id, f"header or data is not a list of [text, links] ({error!r})"))
        return None
    if is_ragged(file, table_id, header, rows, problems):
        return None
    texts: dict[str, Any] = {name: raw.get(name) or "" for name in ("title", "section_title", "section_text", "intro")}
    if invalid_fields := [name for name, text in texts.items() if not isinstance(text, str)]:
        problems.append(Problem(file, table_id, f"{invalid_fields[0]} is not text"))
        return None
    return Table(table_id, header, rows, **texts)


def _cell(raw: list[Any]) -> Cell:
    text, links = raw
    if not isinstance(text, str) or not isinstance(links, list):
        raise TypeError(f"not [text, links]: {raw!r}")
    return Cell(text, tuple(dict.fromkeys(str(link) for link in links)))


def attach_passages(table: Table, content: bytes, problems: list[Problem]) -> Table:
    """Return the table with the passages that its body cells link to.

    Links of the header are not followed, as in the published systems. A link without passage is reported.

    Args:
        table: table without passages.
        content: content of the table's file in `request_tok`.
        problems: list that receives the problems.
    """
    file = f"request_tok/{table.table_id}.json"
    raw = parse_json_as(dict, "an object of passages by link", file, content, problems, table.table_id)
    if raw is None:
        return table
    links = dict.fromkeys(link for _, _, cell in table.cells() for link in cell.links)
    passages = {link: raw[link] for link in links if isinstance(raw.get(link), str)}
    absent = (link for link in links if link not in passages)
    problems += [Problem(file, link, "is linked from the table but has no passage") for link in absent]
    return replace(table, passages=passages)
