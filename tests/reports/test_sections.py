"""A section of a comparison is one file and an entry of the list: every renderer shows what it returns."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from mate_cli.reports import all_sections
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.dashboard import sheets
from mate_cli.reports.export.data_files import report_markdown
from mate_cli.reports.export.latex import headings, report_latex
from mate_cli.reports.page import render_page
from mate_cli.reports.terminal import print_report
from mate_cli.reports.view import Column, ReportSection, Row, View, ViewCell
from tests.reports.runs import build_run


def naps(report, *, wide):
    cells = (ViewCell("7 [s]", 7.0, "2", 2.0, "best"), ViewCell("-3 to 1", -1.0, ends=(-3.0, 1.0), mark="worse"))
    rows = (Row(report.groups[0].label, cells), Row("none", (ViewCell(), ViewCell()), "published"))
    view = View("Naps", (Column("length"), Column("change")), rows, notes=("short",))
    return ReportSection("naps", "Naps", "Naps", (view,), ("nobody was woken",))


@pytest.fixture
def report(tmp_path, monkeypatch):
    first, *others = all_sections.SECTIONS
    monkeypatch.setattr(all_sections, "SECTIONS", (first, naps, *others))
    build_run(tmp_path / "run", metrics={"test/em": 0.5}, steps=1)
    return build_report([tmp_path / "run"], published=False)


def test_a_new_section_is_shown_everywhere(report, tmp_path):
    page = render_page(report, tmp_path)
    assert '<a href="#results">Results</a><a href="#naps">Naps</a>' in page
    section = page.partition('<section id="naps">')[2].partition("</section>")[0]
    assert "<span>7 [s]<small> ±2</small></span>" in section
    assert "\u22123 to 1" in section
    assert section.count('class="interval"') == 1
    assert re.findall(r'data-value="([^"]*)"', section) == ["7", "-1"], "what sorts the rows"
    assert [row.count("<td") for row in section.split("<tr")[2:]] == [3, 3], "also where there is no interval"
    assert "Nobody was woken." in section
    console = Console(file=io.StringIO(), width=80)
    print_report(report, console)
    assert ["mate", "*7", "[s]±2", "*-3", "to", "1"] in [one.split() for one in console.file.getvalue().splitlines()]
    assert r"MATE & \textbf{7 {[}s{]}}{\scriptsize$\pm$2} & $-$3 to 1$^{*}$ \\" in report_latex(report)
    assert r"| mate | **7 \[s\]** ±2 | **-3 to 1** |" in report_markdown(report)
    (sheet,) = (one for one in sheets(report) if one.name == "naps/Naps")
    assert sheet.columns == ["configuration", "kind", "length", "± length", "change, low", "change, high"]
    assert sheet.rows == [["mate", "ours", 7.0, 2.0, -3.0, 1.0], ["none", "published", None, None, None, None]]


def test_columns_without_a_group_keep_their_place():
    columns = (
        Column("a"),
        Column("b"),
        Column("c d", ("c",), "d"),
        Column("c e", ("c",), "e"),
        Column("f", ("g",), "f"),
    )
    view = View("x", columns, (Row("y", tuple(ViewCell(str(place), place) for place in range(5))),))
    assert view.spans(0) == [("", 2), ("c", 2), ("g", 1)]
    assert headings(view, range(5))[0].replace(" ", "") == r"&&&\multicolumn{2}{c}{c}&\multicolumn{1}{c}{g}\\"
