"""Small releases of every dataset, with the expectations for the data check."""

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import music_questions
from table_releases import WIKISQL, WIKISQL_TABLES, write, write_original_tabfact, write_sqa, write_tabfact, write_wtq

from mate_cli.data.datasets.hybridqa.reader import HybridQA, OttQA
from mate_cli.data.datasets.json_tables import FeTaQA, InfoTabS, TableBench, TatQA, ToTTo
from mate_cli.data.datasets.passage_readers import MRQA, SQuAD
from mate_cli.data.datasets.sqa.reader import SQA
from mate_cli.data.datasets.tabfact.reader import TabFact
from mate_cli.data.datasets.wikisql.reader import WikiSQL
from mate_cli.data.datasets.wtq.reader import WikiTableQuestions
from mate_cli.papers.dt_fixup.datasets.option_questions import LogiQa, ReClor
from mate_cli.papers.dt_fixup.datasets.spider_questions import Spider
from mate_cli.papers.transformer_xh.datasets.document_readers import HotpotQA, MuSiQue

Change = Callable[[Any], None]


@dataclass(frozen=True)
class File:
    """A file of a small release.

    Args:
        value: JSON value, a list for JSON lines. None for other formats, which `Sample.writer` writes.
        unread: keys that no reader needs, as `key` or `outer.key`.
        optional: keys that may be missing or null, but not of another type.
        wrong: changes of the value that the data check must report, by description.
        open_end: whether the file may end at any position, so that truncation cannot be detected.
        as_one: whether the data check only reports the file instead of the location inside the file.
        by_id: whether the keys of the value are ids, which may be missing.
    """

    value: Any = None
    unread: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    wrong: dict[str, Change] = field(default_factory=dict)
    open_end: bool = False
    as_one: bool = False
    by_id: bool = False


@dataclass(frozen=True)
class Sample:
    """A small release of a dataset.

    Args:
        reader: class of the dataset.
        files: files by name.
        writer: function that writes the files without a value.
        options: arguments of the reader.
    """

    reader: Callable[..., Any]
    files: dict[str, File]
    writer: Callable[[Path], Path] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        """Write all files."""
        root.mkdir(parents=True, exist_ok=True)
        if self.writer:
            self.writer(root)
        for name, file in self.files.items():
            if file.value is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(content(name, file.value))
        return root


def content(name: str, value: Any) -> bytes:
    """Encode a value as JSON with one key per line, or as JSON lines."""
    if ".jsonl" in name or (name.endswith(".txt") and isinstance(value, list)):
        return "".join(json.dumps(one) + "\n" for one in value).encode()
    return json.dumps(value, indent=1).encode()


def keys(*names: str) -> frozenset[str]:
    return frozenset(names)


PASSAGE = "Ann was born in Oslo. Oslo is cold, and Ann left Oslo in 1901."
OTHER = "The Alva is a river. It is cold and leads to Rome."


def squad(*names: str) -> dict:
    split = f" {names[0]}."

    def asked(name, text, start, answer):
        return {"id": name, "question": text, "answers": [{"answer_start": start, "text": answer}]}

    first = [asked(names[0], "where was Ann born?", 16, "Oslo"), asked(names[1], "when?", 57, "1901")]
    second = [asked(names[2], "what is the Alva?", 12, "a river")]
    return {
        "data": [
            {"title": "Ann_Lee", "paragraphs": [{"context": PASSAGE + split, "qas": first}]},
            {"title": "Alva", "paragraphs": [{"context": OTHER + split, "qas": second}]},
        ],
        "version": "1",
    }


def first_question(value):
    return value["data"][0]["paragraphs"][0]["qas"][0]


SQUAD_UNREAD, SQUAD_OPTIONAL = keys("version"), keys("title")
SQUAD_WRONG: dict[str, Change] = {
    "an answer elsewhere": lambda value: first_question(value)["answers"][0].update(text="Rome"),
    "a place out of range": lambda value: first_question(value)["answers"][0].update(answer_start=999),
    "a place below zero": lambda value: first_question(value)["answers"][0].update(answer_start=-46),
    "an id twice": lambda value: value["data"][1]["paragraphs"][0]["qas"][0].update(id=first_question(value)["id"]),
    "an empty context": lambda value: value["data"][1]["paragraphs"][0].update(context=""),
}


def squad_file(*names: str, twice: bool = True) -> File:
    wrong = {name: change for name, change in SQUAD_WRONG.items() if twice or name != "an id twice"}
    return File(squad(*names), SQUAD_UNREAD, SQUAD_OPTIONAL, wrong)


def mrqa(name, question, passage, answer):
    begin = passage.index(answer)
    span = {"text": answer, "char_spans": [[begin, begin + len(answer) - 1]], "token_spans": [[0, 0]]}
    return {
        "id": "",
        "context": passage,
        "context_tokens": [["x", 0]],
        "qas": [
            {
                "qid": name,
                "question": question,
                "question_tokens": [["x", 0]],
                "answers": [answer],
                "detected_answers": [span],
            }
        ],
    }


MRQA_UNREAD = keys("id", "context_tokens", "question_tokens", "token_spans")
MRQA_LINES = [
    {"header": {"dataset": "NaturalQuestions", "split": "train"}},
    mrqa("m0", "where was Ann born", PASSAGE, "Oslo"),
    mrqa("m1", "what is the Alva", OTHER, "a river"),
    mrqa("m2", "where does it lead", OTHER, "Rome"),
]


def spans(lines, place=0):
    return lines[place + 1]["qas"][0]["detected_answers"][0]["char_spans"]


def hotpotqa(number, answer="Oslo"):
    return {
        "_id": f"q{number}",
        "question": f"where was the author of Alva {number} born?",
        "answer": answer,
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [["Ann Lee", 1], ["Alva (novel)", 0]],
        "context": [
            ["Ann Lee", ["Ann Lee writes.", " She was born in Oslo."]],
            ["Rivers", ["The Alva is cold."]],
            ["Alva (novel)", ["Alva is a novel by Ann Lee."]],
        ],
    }


def graph(number):
    return {
        "qid": f"q{number}",
        "question": f"where was the author of Alva {number} born?",
        "node": [
            {"full_name": "Ann_Lee", "context": ["born", "in", "os", "##lo"], "is_ans": 1, "spans": [[2, 3]]},
            {"name": "Alva", "context": ["a", "novel"], "is_ans": 0, "spans": []},
        ],
        "edge": [{"start": 1, "end": 0, "sent": "by Ann Lee"}],
    }


def musique(number):
    return {
        "id": f"2hop__{number}_1",
        "question": f"who {number}?",
        "answer": "Ann Lee",
        "answer_aliases": ["A. Lee"],
        "answerable": True,
        "question_decomposition": [{"id": 1, "question": "x", "answer": "y", "paragraph_support_idx": 0}],
        "paragraphs": [
            {"idx": 0, "title": "Alva", "paragraph_text": "By Ann Lee.", "is_supporting": True},
            {"idx": 1, "title": "Oslo", "paragraph_text": "A town.", "is_supporting": False},
        ],
    }


def reclor(name):
    texts = {"context": f"All cats sleep, {name}.", "question": "Which follows?"}
    return {**texts, "answers": ["Tom", "No cat", "Dogs", "Rain"], "label": 1, "id_string": name}


def logiqa(number):
    texts = {"text": f"All cats sleep, {number}.", "question": "Which follows?"}
    return {"id": number, "answer": 1, **texts, "options": ["Tom", "No cat", "Dogs", "Rain"], "type": {}}


LOGIQA_1 = "".join(f"\nb\nAll cats sleep, {n}.\nWhat follows?\nA.Tom\nB.No cat\nC.Dogs\nD.Rain\n" for n in range(3))


def write_logiqa_1(root: Path) -> Path:
    for name in ("Train", "Eval", "Test"):
        (root / f"{name}.txt").write_text(LOGIQA_1, encoding="utf-8", newline="")
    return root


HYBRIDQA_TABLE = {
    "title": "Winners",
    "section_title": "",
    "section_text": "",
    "intro": "",
    "url": "u",
    "uid": "Winners_0",
    "header": [["Year", []], ["Player", []]],
    "data": [[["1975", []], ["Ann Lee", ["/wiki/Ann_Lee"]]], [["1980", []], ["Bob", ["/wiki/Bob"]]]],
}


def hybridqa(name, node=True):
    plain = {"question_id": name, "question": f"who won, {name}?", "table_id": "Winners_0", "answer-text": "Ann Lee"}
    place = {"answer-node": [["Ann Lee", [0, 1], None, "table"]]} if node else {}
    return plain | {"question_postag": "WP VBD"} | place


def hybridqa_files() -> dict[str, File]:
    found = {
        "tables_tok/Winners_0.json": File(
            HYBRIDQA_TABLE,
            unread=keys("url", "uid"),
            optional=keys("title", "section_title", "section_text", "intro"),
            wrong={"a ragged row": lambda value: value["data"][0].pop()},
            as_one=True,
        ),
        "request_tok/Winners_0.json": File({"/wiki/Ann_Lee": "Born in Oslo .", "/wiki/Bob": "He boxes ."}),
    }
    for split, name in (("train", "t"), ("dev", "d")):
        traced = [hybridqa(f"{name}{n}") for n in range(3)]
        unread = keys("question_postag", "2")
        wrong: dict[str, Change] = {
            "a node out of range": lambda value: value[1]["answer-node"][0][1].__setitem__(0, 7),
            "a node below zero": lambda value: value[1]["answer-node"][0][1].__setitem__(1, -1),
        }
        found[f"released_data/{split}.traced.json"] = File(
            traced, unread | keys("question", "table_id", "answer-text", "0.0"), keys("answer-node"), wrong
        )
        found[f"released_data/{split}.json"] = File(
            [hybridqa(f"{name}{n}", node=False) for n in range(3)],
            unread,
            wrong={
                "an id twice": lambda value: value[1].update(question_id=value[0]["question_id"]),
                "no such table": lambda value: value[1].update(table_id="Losers_0"),
            },
        )
    return found


def wikisql_questions(split: str) -> list[dict]:
    return [
        {"phase": 1, "table_id": table, "question": question, "sql": copy.deepcopy(sql)}
        for table, question, sql in WIKISQL[split]
        if table == "1-1-1"
        for question in (question, f"{question} again")
    ]


def wikisql_tables(**wrong: Change) -> File:
    tables = [{"id": name, **copy.deepcopy(WIKISQL_TABLES["1-1-1"])} for name in ("1-1-1", "1-1-3")]
    cells = keys(*(f"rows.{column}" for column in range(4)))  # of texts and numbers, or empty
    return File(tables, unread=cells, wrong=wrong)


def spider_questions() -> list[dict]:
    asked = ("how many singers?", "how many people sing?", "count singers")
    return [{"db_id": "music", "query": "SELECT count(*) FROM singer", "question": text} for text in asked]


TABFACT_WRONG: dict[str, Change] = {
    "a label out of range": lambda value: value["2-1-1.html.csv"][1].__setitem__(0, 2),
    "no such table": lambda value: value.update({"2-9-9.html.csv": value.pop("2-1-1.html.csv")}),
    "a label too few": lambda value: value["2-1-1.html.csv"][1].pop(),
}
HOTPOTQA_WRONG: dict[str, Change] = {
    "an id twice": lambda value: value[1].update(_id="q0"),
    "facts of no paragraph": lambda value: value[1].update(supporting_facts=[["Nobody", 0]]),
    "a sentence below zero": lambda value: value[1]["supporting_facts"][0].__setitem__(1, -1),
    "an empty answer": lambda value: value[1].update(answer=" "),
}


def tatqa(split: str) -> dict:
    """Return a table with paragraphs and one question of each type, in the layout of TAT-QA."""

    def asked(number, text, answer, kind, place, scale="", derivation=""):
        question = {"uid": f"{split}-q{number}", "order": number, "question": text, "answer": answer}
        more = {"derivation": derivation, "answer_type": kind, "answer_from": place, "scale": scale}
        return {**question, **more, "rel_paragraphs": [], "req_comparison": False}

    lines = [["", "2019", "2018"], ["Sales", "$1,496.5", "1,400"], ["Costs", "(20.5)", "30"], ["Staff", "12", "9"]]
    questions = [
        asked(1, "What were the sales in 2019?", ["$1,496.5"], "span", "table", "million"),
        asked(2, "Which are above 20 in 2018?", ["1,400", "30"], "multi-span", "table"),
        asked(3, "What is the average staff?", 10.5, "arithmetic", "table", derivation="(12+9)/2"),
        asked(4, "How did the sales change?", 6.89, "arithmetic", "table", "percent", "(1,496.5-1,400)/1,400 * 100"),
        asked(5, "How many years are there?", "2", "count", "table", derivation="2019##2018"),
        asked(6, "Where is the company?", ["Bergen"], "span", "text"),
    ]
    paragraphs = [{"uid": "p1", "order": 1, "text": "The company is in Bergen."}]
    return {"table": {"uid": f"{split}-t", "table": lines}, "paragraphs": paragraphs, "questions": questions}


TATQA_WRONG: dict[str, Change] = {
    "an unknown scale": lambda value: value[0]["questions"][0].update(scale="dozen"),
    "an unknown type": lambda value: value[0]["questions"][0].update(answer_type="list"),
    "a cell too few": lambda value: value[0]["table"]["table"][1].pop(),
    "an id twice": lambda value: value[0]["questions"][1].update(uid=value[0]["questions"][0]["uid"]),
}
TATQA_UNREAD = keys("order", "rel_paragraphs", "req_comparison", "paragraphs.uid", "derivation", "answer")


def fetaqa(number: int) -> dict:
    """Return a question with its table, in the layout of FeTaQA."""
    return {
        "feta_id": number,
        "table_source_json": f"totto_source/dev_json/example-{number}.json",
        "page_wikipedia_url": f"http://en.wikipedia.org/wiki/Ann_{number}",
        "table_page_title": "Ann Lee",
        "table_section_title": "Films",
        "table_array": [["Year", "Film"], ["1999", "Rivers"], ["2001", "The Sea"]],
        "highlighted_cell_ids": [[0, 1], [2, 0], [2, 1]],
        "question": "Which film did Ann Lee make in 2001?",
        "answer": "Ann Lee made The Sea in 2001.",
    }


FETAQA_WRONG: dict[str, Change] = {
    "no such cell": lambda value: value[1]["highlighted_cell_ids"].append([3, 0]),
    "a cell too many": lambda value: value[1]["table_array"][1].append("x"),
    "an id twice": lambda value: value[1].update(feta_id=value[0]["feta_id"]),
}

INFOBOX = {"title": ["Ann Lee"], "Born": ["1970", "Oslo"], "Occupation": ["inventor"]}


def write_infotabs(root: Path) -> Path:
    """Write a small InfoTabS release."""
    for name, table in (("train", "T1"), ("dev", "T2"), ("test_alpha1", "T3")):
        texts = (("Ann Lee was born in Oslo.", "E"), ("Ann Lee is a painter.", "C"), ("Ann Lee is tall.", "N"))
        lines = ["annotater_id\ttable_id\thypothesis\tlabel", *(f"A1\t{table}\t{text}\t{one}" for text, one in texts)]
        write(root / "data" / "maindata" / f"infotabs_{name}.tsv", "\n".join(lines) + "\n")
        write(root / "data" / "tables" / "json" / f"{table}.json", json.dumps(INFOBOX))
    return root


def ottqa_files() -> dict[str, File]:
    """Return the files of HybridQA's small release under the names of OTT-QA."""
    return {f"data/traindev_{name}" if "_tok/" in name else name: file for name, file in hybridqa_files().items()}


def totto(number: int) -> dict:
    """Return a table with highlighted cells and its description, in the layout of ToTTo."""

    def cell(value, width=1, height=1):
        return {"value": value, "is_header": False, "column_span": width, "row_span": height}

    sentences = [f"Ann Lee made {text} in 2001." for text in ("The Sea", "the film The Sea")]
    return {
        "table_page_title": "Ann Lee",
        "table_webpage_url": "http://en.wikipedia.org/wiki/Ann_Lee",
        "table_section_title": "Films",
        "table_section_text": "",
        "table": [
            [cell("Year"), cell("Film"), cell("Role")],
            [cell("2001", height=2), cell("Rivers", 2)],
            [cell("The Sea"), cell("Eve")],
        ],
        "highlighted_cells": [[1, 0], [2, 0]],
        "example_id": number,
        "overlap_subset": number % 2 == 0,
        "sentence_annotations": [{"original_sentence": "x", "final_sentence": text} for text in sentences],
    }


def tablebench(number: int, kind: str, subtype: str, answer: str) -> dict:
    """Return a question with its table, in the layout of TableBench."""
    table = {"columns": ["year", "films"], "data": [[2001, 3], ["2002", None]]}
    kinds = {"qtype": kind, "qsubtype": subtype}
    return {"id": f"b{number}", **kinds, "table": table, "question": "how many?", "answer": answer, "instruction": "x"}


BENCH = [
    tablebench(0, "FactChecking", "MatchBased", "3"),
    tablebench(1, "DataAnalysis", "TrendForecasting", "100"),
    tablebench(2, "DataAnalysis", "CausalAnalysis", "Yes, films cause years."),
    tablebench(3, "Visualization", "ChartGeneration", "y = [3]"),
]

SAMPLES: dict[str, Sample] = {
    "totto": Sample(
        ToTTo,
        {
            f"totto_data/totto_{split}_data.jsonl": File(
                [totto(number), totto(number + 1)],
                keys("table_webpage_url", "original_sentence", "is_header", "row_span", "column_span"),
                optional=keys("overlap_subset"),
                wrong={"no such cell": lambda value: value[1]["highlighted_cells"].append([3, 0])},
            )
            for number, split in ((0, "train"), (2, "dev"))
        },
    ),
    "tablebench": Sample(
        TableBench,
        {
            "TableBench.jsonl": File(
                BENCH,
                keys("instruction", *(f"data.{row}" for row in "01"), "columns.0", "columns.1", "0", "1"),
                wrong={"an id twice": lambda value: value[1].update(id="b0")},
            )
        },
    ),
    "infotabs": Sample(
        InfoTabS,
        {
            "data/maindata/infotabs_train.tsv": File(),
            "data/tables/json/T1.json": File(INFOBOX, by_id=True, as_one=True),
        },
        write_infotabs,
    ),
    "ottqa": Sample(OttQA, ottqa_files()),
    "tatqa": Sample(
        TatQA,
        {
            "dataset_raw/tatqa_dataset_train.json": File([tatqa("train")], TATQA_UNREAD, wrong=TATQA_WRONG),
            "dataset_raw/tatqa_dataset_dev.json": File([tatqa("dev")], TATQA_UNREAD),
        },
    ),
    "fetaqa": Sample(
        FeTaQA,
        {
            f"data/fetaQA-v1_{split}.jsonl": File(
                [fetaqa(number), fetaqa(number + 1)], keys("table_source_json"), wrong=FETAQA_WRONG
            )
            for number, split in ((0, "train"), (2, "dev"))
        },
    ),
    "squad": Sample(SQuAD, {"train-v1.1.json": squad_file("a", "b", "c"), "dev-v1.1.json": squad_file("d", "e", "f")}),
    "mrqa": Sample(
        MRQA,
        {
            "train/NaturalQuestionsShort.jsonl": File(
                MRQA_LINES,
                unread=MRQA_UNREAD | keys("header", "0"),
                wrong={
                    "a place out of range": lambda value: spans(value).__setitem__(0, [999, 1002]),
                    "places below zero": lambda value: spans(value).__setitem__(0, [-5, -1]),
                    "an end before its begin": lambda value: spans(value).__setitem__(0, [16, 3]),
                    "an answer elsewhere": lambda value: value[1]["qas"][0]["detected_answers"][0].update(text="Rome"),
                    "an id twice": lambda value: value[2]["qas"][0].update(qid="m0"),
                },
            ),
            "dev/NaturalQuestionsShort.jsonl": File(
                [mrqa(f"d{n}", "where", f"Bern {n} is a town.", "Bern") for n in range(2)], unread=MRQA_UNREAD
            ),
        },
    ),
    "hybridqa": Sample(HybridQA, hybridqa_files()),
    "wtq": Sample(
        WikiTableQuestions, {"data/random-split-1-train.tsv": File(), "csv/200-csv/1.csv": File(as_one=True)}, write_wtq
    ),
    "sqa": Sample(SQA, {"random-split-1-train.tsv": File(), "table_csv/203_1.csv": File(as_one=True)}, write_sqa),
    "tabfact": Sample(
        TabFact,
        {
            "tokenized_data/train_examples.json": File(
                {"2-1-1.html.csv": [["ann lee score 3", "bob score 4"], [1, 0], "players"]},
                wrong=TABFACT_WRONG,
                by_id=True,
            ),
            "data/all_csv/2-1-1.html.csv": File(as_one=True, open_end=True),
            "data/simple_ids.json": File(["2-1-1.html.csv"], open_end=True),
        },
        write_tabfact,
    ),
    "tabfact_original": Sample(
        TabFact,
        {
            "collected_data/r1_training_all.json": File(
                {"2-1-1.html.csv": [["Ann Lee scored 3.", "Bob scored 4."], [1, 0], "players"]},
                wrong={"a label out of range": TABFACT_WRONG["a label out of range"]},
            ),
            "data/train_id.json": File(
                ["2-1-1.html.csv"],
                wrong={
                    "no such table": lambda value: value.append("2-9-9.html.csv"),
                    "an id twice": lambda value: value.append(value[0]),
                },
            ),
        },
        write_original_tabfact,
    ),
    "wikisql": Sample(
        WikiSQL,
        {
            "train.jsonl": File(
                wikisql_questions("train"),
                unread=keys("phase", "conds.2"),
                wrong={
                    "no such column": lambda value: value[1]["sql"].update(sel=4),
                    "no such aggregation": lambda value: value[1]["sql"].update(agg=6),
                    "no such operator": lambda value: value[1]["sql"]["conds"][0].__setitem__(1, 3),
                    "no such table": lambda value: value[1].update(table_id="9-9-9"),
                },
            ),
            "train.tables.jsonl": wikisql_tables(
                a_list_for_a_cell=lambda value: value[0]["rows"][1].__setitem__(0, ["Ann Lee"]),
                no_such_type=lambda value: value[0]["types"].__setitem__(0, "date"),
                a_cell_too_few=lambda value: value[0]["rows"][1].pop(),
                an_id_twice=lambda value: value[1].update(id=value[0]["id"]),
            ),
            "dev.jsonl": File(wikisql_questions("dev"), unread=keys("phase", "conds.2")),
            "dev.tables.jsonl": wikisql_tables(),
        },
    ),
    "spider": Sample(
        Spider,
        {
            "train_spider.json": File(
                spider_questions(), wrong={"no such database": lambda value: value[1].update(db_id="films")}
            ),
            "dev.json": File(spider_questions()),
            "tables.json": File(
                [music_questions.ENTRY],
                unread=keys("primary_keys"),
                wrong={
                    "no primary keys": lambda value: value[0].pop("primary_keys"),
                    "no such primary key": lambda value: value[0].update(primary_keys=[99]),
                    "no such key": lambda value: value[0]["foreign_keys"].append([99, 1]),
                    "a column of no table": lambda value: value[0]["column_names"][1].__setitem__(0, 9),
                    "an id twice": lambda value: value.append(copy.deepcopy(value[0])),
                    "a type too few": lambda value: value[0]["column_types"].pop(),
                },
            ),
        },
    ),
    "hotpotqa": Sample(
        HotpotQA,
        {
            "train.json": File(list(map(hotpotqa, range(3))), optional=keys("type", "level"), wrong=HOTPOTQA_WRONG),
            "dev.jsonl": File(list(map(hotpotqa, range(3, 6))), optional=keys("type", "level"), wrong={}),
        },
        options={"train_file": "train.json", "dev_file": "dev.jsonl", "test_file": None},
    ),
    "hotpotqa_graphs": Sample(
        HotpotQA,
        {
            "train.jsonl": File(
                list(map(graph, range(3))),
                optional=keys("edge", "full_name", "name", "sent", "is_ans", "spans"),
                wrong={
                    "an id twice": lambda value: value[1].update(qid="q0"),
                    "an edge to nothing": lambda value: value[1]["edge"][0].update(end=7),
                    "an edge below zero": lambda value: value[1]["edge"][0].update(start=-1),
                    "a span out of range": lambda value: value[1]["node"][0].update(spans=[[2, 9]]),
                },
            )
        },
        options={"train_file": "train.jsonl", "dev_file": None, "test_file": None},
    ),
    "musique": Sample(
        MuSiQue,
        {
            "train.jsonl": File(
                list(map(musique, range(3))),
                unread=keys("question_decomposition", "idx"),
                optional=keys("answerable", "answer_aliases"),
                wrong={
                    "an id twice": lambda value: value[1].update(id=value[0]["id"]),
                    "no paragraph supports": lambda value: value[1]["paragraphs"][0].update(is_supporting=False),
                },
            )
        },
        options={"train_file": "train.jsonl", "dev_file": None, "test_file": None},
    ),
    "reclor": Sample(
        ReClor,
        {
            f"{name}.json": File(
                [reclor(f"{name}{n}") for n in range(3)],
                wrong={
                    "a label out of range": lambda value: value[1].update(label=4),
                    "a label below zero": lambda value: value[1].update(label=-1),
                    "an id twice": lambda value: value[1].update(id_string=value[0]["id_string"]),
                },
            )
            for name in ("train", "val")
        },
    ),
    "logiqa_2": Sample(
        LogiQa,
        {
            f"{name}.txt": File(
                list(map(logiqa, range(3))),
                unread=keys("id", "type"),
                wrong={"a label out of range": lambda value: value[1].update(answer=4)},
            )
            for name in ("train", "dev")
        },
        options={"version": "2.0"},
    ),
    "logiqa_1": Sample(LogiQa, {"Eval.txt": File(open_end=True)}, write_logiqa_1, {"version": "1.0"}),
}
