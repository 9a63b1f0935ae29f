"""Columns of one's own questions whose names are nearly right."""

from __future__ import annotations

import pytest

from mate_cli.cli.app import main
from mate_cli.data.datasets.labelled.rows import check_columns
from mate_cli.errors import DataError


@pytest.mark.parametrize(
    ("names", "wanted", "near"),
    [
        (("question", "table", "answr"), "answer", "answr"),
        (("questoin", "table", "answer"), "question", "questoin"),
        (("question", "Tabel", "answer"), "table", "tabel"),
        (("question", "database", "slql"), "sql", "slql"),
    ],
)
def test_a_misspelt_column_is_named_with_the_right_one(names, wanted, near):
    with pytest.raises(DataError, match=rf"no column `{wanted}`\. Did you mean {near}\?"):
        check_columns(names, {}, "q.csv")


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (("question", "table", "answer", "answr"), {}),
        (("question", "database", "sql"), {}),
        (("query", "table", "answr"), {"question": "query", "answer": "answr"}),
        ((), {}),
    ],
)
def test_columns_that_are_there_or_like_none_are_let_be(names, columns):
    check_columns(names, columns, "q.csv")


def test_the_remedy_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("city,people\nParis,3\nRome,4\n")
    (tmp_path / "q.csv").write_text("question,table,answr\nWho has 3?,t.csv,Paris\nWho has 4?,t.csv,Rome\n")
    assert main(["data", "check", "data=files", "data.train=q.csv"]) == 2
    said = capsys.readouterr().err
    remedy = said[said.index("'") + 1 : said.rindex("'")]
    assert main(["data", "check", "data=files", "data.train=q.csv", remedy]) == 0
