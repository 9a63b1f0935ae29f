"""Corpora for pre-training: what is read, what is the same, and what must not be learnt from."""

import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden import shared
from hypothesis import given
from hypothesis import strategies as st

from mate_cli.data.corpora import preparation
from mate_cli.data.corpora.contamination import EvaluationTables
from mate_cli.data.corpora.corpus_sources import Sources
from mate_cli.data.corpora.interactions import parse_message, read_interactions
from mate_cli.data.corpora.shards import CorpusTable, from_row, open_shards, read_shard, table_key, write_shard
from mate_cli.data.corpora.table_corpus import TableCorpus
from mate_cli.data.datasets.hybridqa.reader import Sample
from mate_cli.errors import ConfigError, DataError
from mate_cli.tables.table import Cell, Table


def table(*rows, header=("name", "town", "year"), **titles):
    return Table("t", tuple(map(Cell, header)), tuple(tuple(map(Cell, row)) for row in rows), **titles)


PEOPLE = table(("Ann Lee", "Spring Field", "1901"), ("Bob Stone", "Zürich", "1902"), ("Cy Young", "Lake City", "1,903"))
INTERACTION = (
    'id: "a" table { columns { text: "Na\\"me" } columns { text: "Z\\303\\274rich" } rows { cells { text: "x" '
    "numeric_value { float_value: -1.5e+3 } } cells { text: 'y' } } rows { cells { text: \"short\" } } "
    'table_id: "t-1" document_title: "A page" caption: "A table" } '
    'questions { id: "q" original_text: "one " "two" text: "lower" } questions < text: "three" >\n'
)


def test_a_key_is_equal_for_the_same_words_in_the_same_cells():
    shouted = table(*(tuple(cell.text.upper() + "!" for cell in row) for row in PEOPLE.rows), title="Other")
    assert table_key(shouted) == table_key(PEOPLE)
    assert table_key(replace(PEOPLE, rows=PEOPLE.rows[::-1])) != table_key(PEOPLE)


def test_texts_are_what_is_said_of_a_table_once_and_without_empty_ones():
    one = replace(PEOPLE, title="People", section_title="People", passages={"l": "Two\nlines"})
    assert CorpusTable.build(one, "s", ("more", " ")).texts == ("People", "Two lines", "more")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (PEOPLE, "equal"),
        (table(("ANN LEE[1]", "Spring-Field", "1901"), ("Bob Stone", "Zurich", "1902"), ("a", "b", "c")), "near-equal"),
        (table(("1903", "Cy Young", "Lake City"), ("1901", "Ann Lee", "Spring Field"), header="abc"), "near-equal"),
        (table(("Ann Lee", "Spring Field", "1901")), ""),  # one row is no edition
        (table(*[(f"somebody {n}", "elsewhere", str(n)) for n in range(9)]), ""),
        (table(("1", "2", "3"), ("2", "3", "4")), ""),
        (table(*[(f"name {n}", f"town {n}", f"more {n}") for n in range(9)]), "near-equal"),  # another column
        (table(*[(f"name {n % 3}", f"{n}", f"more {n}") for n in range(9)]), ""),
    ],
)
def test_editions_of_evaluation_tables_are_found(other, found):
    numbers = table(("1", "2", "3"), ("2", "3", "4"), ("5", "6", "7"))
    long = table(*[(f"name {n}", f"town {n}", f"{n}") for n in range(9)])
    assert EvaluationTables([PEOPLE, numbers, long]).find_repeat(other, table_key(other)) == found


def test_interactions_of_the_published_format_are_read(tmp_path):
    path = tmp_path / "some.txtpb.gz"
    path.write_bytes(gzip.compress(INTERACTION.encode() * 2))
    first, second = (make() for make in read_interactions(path))
    assert [cell.text for cell in first.table.header] == ['Na"me', "Zürich"]
    assert [[cell.text for cell in row] for row in first.table.rows] == [["x", "y"]]  # the ragged row is left out
    assert first.texts == ("A page", "A table", "one two", "three")
    assert (first.table.table_id, first.source, first.key) == ("t-1", "some.txtpb.gz", second.key)


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from("\"'"))
def test_any_text_survives_the_text_form(text, mark):
    escaped = "".join(
        f"\\{byte:03o}" if chr(byte) in "\\\"'" or not 31 < byte < 127 else chr(byte) for byte in text.encode()
    )
    assert parse_message(f"field: {mark}{escaped}{mark}") == {"field": [text]}


@given(st.text(alphabet="ab:{}<>\"'\\; \n01", max_size=40))
def test_no_text_breaks_the_reader(text):
    assert read_or_refused(text) or not text.strip("; \n"), "an empty message is of a text that says nothing"


def read_or_refused(text):
    """The message, or why there is none."""
    try:
        return parse_message(text)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("text", ["a {", "a }", "a", "a: }", 'a: "open', "{ }"])
def test_what_is_no_message_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        parse_message(text)


def test_a_damaged_file_of_interactions_names_the_line(tmp_path):
    (tmp_path / "bad.txtpb").write_text(INTERACTION + "table {\n")
    with pytest.raises(DataError, match=r"line 2.*unclosed"):
        [make() for make in read_interactions(tmp_path / "bad.txtpb")]


def test_a_shard_gives_back_what_was_written(tmp_path):
    linked = replace(
        PEOPLE,
        title="People",
        rows=((Cell("Ann", ("/ann", "/b")), Cell(""), Cell("1")), *PEOPLE.rows[1:]),
        passages={"/ann": "Ann is somebody.", "/b": "B"},
    )
    tables = [CorpusTable.build(linked, "s", ("said",)), CorpusTable.build(PEOPLE, "s")]
    write_shard(tmp_path / "a.parquet", tables)
    assert list(read_shard(tmp_path / "a.parquet")) == tables


def test_anyone_can_write_a_shard(tmp_path):
    rows = {"header": [["a", "b"]] * 20, "rows": [[["1", None], ["2"]]] * 20, "title": ["T"] * 20}
    pq.write_table(pa.table(rows), tmp_path / "own.parquet")
    one = next(read_shard(tmp_path / "own.parquet"))
    assert [[cell.text for cell in row] for row in one.table.rows] == [["1", ""]]
    assert one.texts == ("T",)
    assert one.key == table_key(one.table)
    (shard,) = open_shards([tmp_path / "own.parquet"])
    assert (shard.tables, shard.held_out) == (18, 2)
    assert from_row({"header": None, "rows": None}).table.header == ()


def test_what_is_no_corpus_is_refused(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    (tmp_path / "y.parquet").write_text("no")
    for name, words in (("x", "only the columns x"), ("y", "cannot be read as Parquet")):
        with pytest.raises(DataError, match=words):
            open_shards([tmp_path / f"{name}.parquet"])
    with pytest.raises(DataError, match="no such file"):
        TableCorpus(tmp_path, tmp_path, shards=[str(tmp_path / "none-*.parquet")]).files  # noqa: B018


@pytest.fixture
def own_folder(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "big_towns.csv").write_text("town,size\nBern,100\nParis,2000\nRome,300\n")
    (folder / "again.tsv").write_text("town\tsize\nBern\t100\nParis\t2000\nRome\t300\n")
    (folder / "broken.xlsx").write_text("no workbook")
    (folder / "some.txtpb").write_text(INTERACTION)
    return folder


def prepare(cache, sources, exclude, datasets=Path("/nowhere")):
    """Prepare a corpus; its tables and counts."""
    corpus = TableCorpus(datasets, cache, sources, exclude)
    tables = list(corpus.tables())
    return tables, json.loads((corpus.folder / "counts.json").read_text())


def test_sources_are_joined_and_repeated_tables_kept_once(own_folder, tmp_path):
    with pytest.warns(UserWarning, match=r"1 files left out: broken\.xlsx"):
        tables, counts = prepare(tmp_path / "cache", ["sample", str(own_folder)], [])
    distinct = {table_key(e.table) for split in Sample().splits for e in Sample().examples(split)}
    assert counts["tables"] == {"sample": len(distinct), str(own_folder): 2}
    assert counts["left out"] == {f"{own_folder}: repeated": 1}
    assert "again" in [text for table in tables if table.source == "own" for text in table.texts]


def test_no_evaluation_table_is_in_the_corpus(tmp_path):
    tables, counts = prepare(tmp_path, ["sample"], ["sample/dev", "sample/test", "wtq/dev"])
    held_back = {table_key(e.table) for split in ("dev", "test") for e in Sample().examples(split)}
    assert held_back
    assert not held_back & {table.key for table in tables}
    assert counts["left out"]["sample: equal to one of evaluation"] == len(held_back)
    assert set(counts["excluded"]) == {"sample/dev", "sample/test", "wtq/dev"}
    assert counts["excluded"]["wtq/dev"] == 0  # it is not there
    evaluation = EvaluationTables(e.table for e in Sample().examples("dev"))
    assert not any(evaluation.find_repeat(table.table, table.key) for table in tables)


@pytest.mark.parametrize("name", ["hybridqa", "hybridqa/developement", "hybrid/dev", "/dev"])
def test_a_split_that_cannot_be_is_no_exclusion(name, tmp_path):
    with pytest.raises(ConfigError, match=r"data\.exclude"):
        prepare(tmp_path, ["sample"], [name])


def test_two_processes_may_prepare_the_same_corpus(tmp_path, monkeypatch):
    first, second = (TableCorpus(tmp_path, tmp_path / "cache", sources=["sample"], exclude=[]) for _ in range(2))
    wait = []

    def meanwhile(*arguments):
        if not wait:
            wait.append(True)
            first.files  # noqa: B018 - the other process
        return preparation.write_parts(*arguments)

    monkeypatch.setattr("mate_cli.data.corpora.table_corpus.write_parts", meanwhile)
    assert [shard.path for shard in second.files] == [shard.path for shard in first.files]
    assert [path.name for path in (tmp_path / "cache" / "corpora").iterdir()] == [first.fingerprint]


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A file of 90 tables, of which 80 differ, read in parts of 8."""
    monkeypatch.setattr(preparation, "PART", 8, raising=False)
    lines = (INTERACTION.replace("'y'", f"'y{number % 80}'") for number in range(90))
    (tmp_path / "many.txtpb").write_text("".join(lines))
    return tmp_path / "many.txtpb"


@pytest.mark.long
def test_a_killed_preparation_goes_on(many, tmp_path, monkeypatch):
    whole, _ = prepare(tmp_path / "whole", [str(many)], [])
    written, write_part = [], preparation._write_part

    def write(path, *arguments):
        if len(written) == 5:
            raise KeyboardInterrupt
        written.append(path.name)
        write_part(path, *arguments)

    monkeypatch.setattr(preparation, "_write_part", write)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "cache", [str(many)], [])
    first = written.copy()
    written[:] = [""] * 6
    (damaged,) = (tmp_path / "cache").rglob(first[0])
    damaged.write_bytes(b"")  # as a machine may leave it that loses its power
    assert prepare(tmp_path / "cache", [str(many)], [])[0] == whole
    assert len(written) == 6 + 12 - 5 + 1
    assert {*first} & {*written} == {damaged.name}
    assert len(list((tmp_path / "cache" / "corpora").iterdir())) == 1


def test_processes_share_a_preparation(many, tmp_path, monkeypatch):
    written, write_part, together = [], preparation._write_part, threading.Barrier(2)

    def write(path, *arguments):
        worker = threading.get_ident()
        is_first = worker not in dict(written)
        written.append((worker, path.name))
        if is_first:
            together.wait(10)
        write_part(path, *arguments)

    monkeypatch.setattr(preparation, "_write_part", write)
    arguments = tmp_path / "parts", Sources(tmp_path), [str(many)], EvaluationTables(), tmp_path / "finished"
    with ThreadPoolExecutor(2) as pool:
        parts, others = pool.map(lambda _: preparation.write_parts(*arguments), range(2))
    assert parts == others
    assert {path.name for _, path in parts} == {name for _, name in written}
    assert len(parts) == 12
    assert len(written) < 18, "what another process is writing is left to it"
    assert len({worker for worker, _ in written}) == 2


def test_a_corpus_is_prepared_once_and_says_what_was_left_out(tmp_path, monkeypatch):
    corpus = TableCorpus(tmp_path, tmp_path / "cache", sources=["sample"], exclude=["sample/dev"])
    keys = [table.key for table in corpus.tables()]
    assert len(keys) == len(set(keys))
    assert sum(shard.tables + shard.held_out for shard in corpus.files) == len(keys)
    assert "equal to one of evaluation" in corpus.facts["corpus, left out"]
    monkeypatch.setattr("mate_cli.data.corpora.table_corpus.write_parts", None)
    again = TableCorpus(tmp_path, tmp_path / "cache", sources=["sample"], exclude=["sample/dev"])
    assert [table.key for table in again.tables()] == keys
    dev = again.examples("dev")
    assert len(dev) == sum(shard.held_out for shard in again.files)
    assert {example.example_id for example in dev} <= set(keys)
    assert again.examples("train") == []
    assert TableCorpus(tmp_path, tmp_path, sources=["sample"], exclude=[]).fingerprint != corpus.fingerprint


def test_missing_sources_say_what_to_do(tmp_path):
    for source, words in (("hybridqa", "mate data download data=hybridqa"), ("nothing", "Datasets are .*hybridqa")):
        with pytest.raises(DataError, match=words):
            list(Sources(tmp_path).readers(source))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no tables are left"):
        TableCorpus(tmp_path, tmp_path / "c", sources=[str(tmp_path / "empty")]).files  # noqa: B018
    assert not list((tmp_path / "c" / "corpora").glob("*/counts.json"))


def test_a_check_reports_what_is_in_the_corpus(tmp_path):
    corpus = TableCorpus(tmp_path, tmp_path, sources=["sample"], exclude=["sample/dev"])
    report = corpus.check()
    assert report.counts["corpus"]["tables"] == report.counts["tables"]["sample"]
    assert report.counts["left out"]["sample: equal to one of evaluation"] == report.counts["excluded"]["sample/dev"]
    assert report.percentiles["words describing a table"][50] > 50
    assert not report.problems


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:wikisql")
@pytest.mark.parametrize("name", ["sqa", "wikisql"])
def test_no_table_of_a_released_evaluation_split_is_left_by_its_own_name(name, tmp_path):
    sources = Sources(shared("data"))
    tables, counts = prepare(tmp_path, [name], [f"{name}/dev", f"{name}/test"], shared("data"))
    names = {split: {table.table_id for table in sources.split(name, split)} for split in ("train", "dev", "test")}
    kept = {one.table.table_id for one in tables}
    assert not kept & (names["dev"] | names["test"])
    left_out = sum(counts["left out"].values())
    assert 0.7 * len(names["train"]) < len(kept) <= len(names["train"])
    assert left_out + len(kept) == len(set().union(*names.values()))


def test_evaluation_tables_that_are_not_on_disk_are_said_to_be_unchecked(tmp_path):
    corpus = TableCorpus(tmp_path / "none", tmp_path, ["sample"], ["sample/dev", "wtq/dev"])
    assert corpus.facts["corpus, not checked (not on disk)"] == "wtq/dev"
    assert "wtq/dev" not in corpus.facts["corpus, excluded"]
    report = corpus.check()
    assert "wtq/dev" not in report.counts["excluded"]
    assert "not checked for tables of wtq/dev" in str(report.notes[0])
