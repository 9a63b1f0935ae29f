"""Documents are easy to read: short pages, and a figure for each concept."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))


def test_the_readme_is_one_screen():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


@pytest.mark.parametrize("page", HOW_TO, ids=lambda page: page.stem)
def test_a_how_to_page_is_short_and_holds_no_results(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 150
    assert not re.search(r"[Nn]ot recorded|Recorded:|standard error", text)


def test_each_concept_has_a_figure_with_a_title_for_readers_who_do_not_see_it():
    pages = sorted((DOCS / "concepts").glob("*.md"))
    assert len(pages) >= 5
    for page in pages:
        figures = re.findall(r"!\[([^\]]{20,})\]\(\.\./(images/\w+\.svg)\)", page.read_text(encoding="utf-8"))
        assert len(figures) == 1
        drawing = (DOCS / figures[0][1]).read_text(encoding="utf-8")
        assert "<title" in drawing
        assert "<desc" in drawing
