from __future__ import annotations

from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.data_files import report_markdown
from tests.reports.runs import build_demo, build_ranked, build_run


def grids(text: str) -> list[list[list[str]]]:
    blocks = [block for block in text.split("\n\n") if block.startswith("|")]
    return [
        [[cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines()] for block in blocks
    ]


def test_every_line_has_as_many_cells_as_its_heading(tmp_path):
    text = report_markdown(build_report([build_demo(tmp_path)]))
    hits, answers, costs = grids(text)
    for grid in (hits, answers, costs):
        assert {len(line) for line in grid} == {len(grid[0])}
    assert answers[0] == [
        "Configuration",
        *(
            f"{split} {score}{part}"
            for split in ("Dev", "Test")
            for part in (", In-Table", ", In-Passage", "")
            for score in ("EM", "F1")
        ),
        "n",
    ]
    assert costs[0][-1] == "Status"


def test_marks_and_published_rows(tmp_path):
    text = report_markdown(build_report([build_ranked(tmp_path)]))
    assert "| mate | **64.0** ±2.0 | 3 |" in text
    assert "| tapas | 63.0† | 1 |" in text
    assert "| PointR + MATE (published) | 63.4 ±0.2 |  |" in text
    assert "†: not clearly worse" in text
    assert "- hybridqa · cell selection: 62,613 training examples, init=minilm" in text


def test_names_cannot_break_the_table(tmp_path):
    build_run(tmp_path / "a", model="a|b*c_d")
    grid = grids(report_markdown(build_report([tmp_path], published=False)))[0]
    assert grid[2][0] == r"a\|b\*c\_d"
