"""The nearest page is that of the sentence nearest by words, else by characters."""

from dataclasses import replace

import pytest

from mate_cli.papers.hybrider.system import nearest_page
from mate_cli.tables.table import Cell, Table

PASSAGES = {
    "/wiki/Ann": "Ann is a singer . She won the alpine rally in Oslo .",
    "/wiki/Bob": "Bob is a driver . He won nothing .",
    "/wiki/Hona": "Hona makes engines .",
}
TABLE = Table("t", (Cell("Who"),), tuple((Cell("x", (link,)),) for link in PASSAGES), passages=PASSAGES)


@pytest.mark.parametrize(
    ("question", "page"),
    [
        ("who won the rally ?", "/wiki/Ann"),
        ("which driver won nothing ?", "/wiki/Bob"),
        ("engines", "/wiki/Hona"),
        ("engin", "/wiki/Hona"),
        ("zzz", "/wiki/Ann"),
    ],
)
def test_nearest_page(question, page):
    assert nearest_page(TABLE, question) == page


def test_a_table_without_a_sentence_has_no_page():
    assert nearest_page(replace(TABLE, passages={}), "who ?") is None
    assert nearest_page(replace(TABLE, passages={"/wiki/Ann": " "}), "who ?") is None
