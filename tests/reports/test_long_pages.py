"""Comparisons of many runs: what grows with them, and how a page shows rows that it does not hold as markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.page import write_page
from tests.reports.browser import CHROMIUM, Browser
from tests.reports.runs import build_run


def build_many(root: Path, count: int) -> Path:
    """As many configurations as this, a run each; the scores fall from the first on."""
    for number in range(count):
        rate = 1e-5 * (number + 1)
        told = {"settings": [f"optimizer.lr={rate:.3g}"], "config": {"optimizer": {"lr": float(f"{rate:.3g}")}}}
        metrics = {"dev/hits@1": 0.9 - number / 1000}
        reason = "ran out of memory" if number == count - 1 else None
        status = "failed" if reason else "finished"
        build_run(root / f"{number:04d}", metrics=metrics, steps=1, status=status, reason=reason, **told)
    return root


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or chrome on PATH")
def test_rows_are_built_where_a_reader_asks_sorts_or_searches(tmp_path):
    page = write_page(build_report([build_many(tmp_path / "runs", 330)]), tmp_path / "compare.html")
    assert len(re.findall("<tr data-settings", page.read_text())) == 100
    browser = Browser(tmp_path / "profile")

    def count(table: str) -> int:
        return browser.evaluate(f"document.querySelectorAll('{table} > tbody > tr').length")

    try:
        browser.open(page)
        assert count("#results table") == count(".runs") == 100
        browser.click("#runs .more")
        assert count(".runs") == 300
        last = "[...document.querySelectorAll('.runs > tbody > tr')].at(-1)"
        cells = "[...document.querySelectorAll('.runs > tbody > tr')].map((row) => row.cells.length)"
        assert set(browser.evaluate(cells)) == {8}
        assert browser.evaluate(f"{last}.querySelector('a').getAttribute('href')") == "runs/0299/"
        assert browser.evaluate(f"{last}.querySelector('.copy').dataset.text").startswith("mate train experiment=")
        browser.choose("run-filter", "optimizer.lr=0.0033 memory")
        (row,) = browser.texts(".runs > tbody > tr:not([hidden])")
        assert "ran out of memory" in row
        assert "1 of 330 runs" in browser.evaluate("document.getElementById('run-count').textContent")
        browser.evaluate("document.querySelector('#results tr.sort th.number').click()")
        browser.evaluate("document.querySelector('#results tr.sort th.number').click()")
        assert count("#results table") == 329
        first = "document.querySelector('#results table > tbody > tr').cells[1]"
        assert browser.evaluate(f"{first}.textContent") == "57.2", "the least comes first, from a row built late"
        assert browser.console == []
    finally:
        browser.close()
