"""Documents are easy to read: lines of a page, words of a sentence."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
LONG = 30
"""Words beyond which a sentence is long."""


def sentences(text: str) -> list[str]:
    """Sentences of a document's prose: no code, tables, headings or pictures; items of lists are apart."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?:#|\||!\[).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"`[^`]*`", "code", text)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", text)
    found = [part for block in blocks for part in re.split(r"(?<=[.!?:])\**\s+(?=\S)", block.replace("\n", " "))]
    return [part for part in found if len(re.findall(r"\w+", part)) > 1]


def count_words(sentence: str) -> int:
    return len(re.findall(r"[\w'-]+", sentence))


def test_sentences_are_told_apart():
    text = "# A title\n\nOne `mate x.y` here. Two\nlines: three.\n\n- an item\n- [a link](x.md) more\n\n| a | b |\n"
    assert sentences(text) == ["One code here.", "Two lines:", "- an item", "- a link more"]


def test_the_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page_is_short_and_holds_no_results(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    assert not re.search(r"[Nn]ot recorded|Recorded:|standard error", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_few_sentences_are_long(page):
    found = sentences(page.read_text(encoding="utf-8"))
    long = [sentence for sentence in found if count_words(sentence) > LONG]
    assert len(long) <= 0.05 * len(found), long


def test_each_concept_has_a_figure_with_a_title_for_readers_who_do_not_see_it():
    pages = sorted((DOCS / "concepts").glob("*.md"))
    assert len(pages) >= 5
    for page in pages:
        figures = re.findall(r"!\[([^\]]{20,})\]\(\.\./(images/\w+\.svg)\)", page.read_text(encoding="utf-8"))
        assert len(figures) == 1
        drawing = (DOCS / figures[0][1]).read_text(encoding="utf-8")
        assert "<title" in drawing
        assert "<desc" in drawing
