from __future__ import annotations

import re

import pytest

from mate_cli.cli.app import main
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.latex import escape, report_latex
from tests.reports.runs import build_demo, build_ranked, build_run


def tables(text: str) -> list[str]:
    return re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", text, flags=re.DOTALL)


def width(line: str) -> int:
    """Counts the columns a line fills, spans included."""
    cells = re.split(r"(?<!\\)&", line.removesuffix(r"\\"))
    spans = [re.match(r"\s*\\multicolumn\{(\d+)\}", cell) for cell in cells]
    return sum(int(span[1]) if span else 1 for span in spans)


def test_every_line_fills_the_columns_of_its_table(tmp_path):
    text = report_latex(build_report([build_demo(tmp_path)]))
    found = tables(text)
    assert len(found) == 3
    for table in found:
        columns = re.match(r"\{(l[lr]*)\}", table)[1]
        lines = [line for line in table.splitlines() if line.endswith(r"\\")]
        assert len(lines) > 3
        assert {width(line) for line in lines} == {len(columns)}
        for rule in re.findall(r"\\cmidrule\(lr\)\{(\d+)-(\d+)\}", table):
            assert 2 <= int(rule[0]) <= int(rule[1]) <= len(columns)
    assert text.count(r"\begin{") == text.count(r"\end{")
    assert text.count("{") == text.count("}")


def test_answers_have_the_columns_of_the_papers_table(tmp_path):
    text = report_latex(build_report([build_demo(tmp_path)]))
    heads = [line for line in text.splitlines() if "In-Passage" in line]
    parts = r" & \multicolumn{2}{c}{In-Table} & \multicolumn{2}{c}{In-Passage} & \multicolumn{2}{c}{Total}"
    assert heads == [f"{parts}{parts} & \\\\"]
    assert r"\begin{table*}" in text
    assert (
        text.count(r"\resizebox{\ifdim\width>\linewidth")
        == text.count(r"\end{tabular}}")
        == text.count(r"\begin{table")
    )
    assert "Model & EM & F1 & EM & F1 & EM & F1 & EM & F1 & EM & F1 & EM & F1 & $n$" in text


def test_the_best_is_bold_and_what_is_within_its_error_underlined(tmp_path):
    text = report_latex(build_report([build_ranked(tmp_path)]))
    assert r"MATE & \textbf{64.0}{\scriptsize$\pm$2.0} & 3 \\" in text
    assert r"TAPAS & \underline{63.0} & 1 \\" in text
    assert r"SAT & 50.0 & 1 \\" in text
    assert r"PointR + MATE & 63.4{\scriptsize$\pm$0.2} &  \\" in text
    assert r"Median $\pm$ half the interquartile range over $n$ runs. Bold: best. Underlined:" in text


def test_a_table_of_one_has_no_marks_to_explain(tmp_path):
    build_run(tmp_path / "a", metrics={"dev/em": 0.5})
    text = report_latex(build_report([tmp_path], published=False))
    assert r"\caption{Question answering on hybridqa $\cdot$ 3,466 dev questions, in percent. " in text
    assert "Published" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a_b & 5%", r"a\_b \& 5\%"),
        ("lr=1e-05 · x", r"lr=1e-05 $\cdot$ x"),
        (r"\input{x} ~^#$", r"\textbackslash{}input\{x\} \textasciitilde{}\textasciicircum{}\#\$"),
    ],
)
def test_no_name_can_be_a_command(text, expected):
    assert escape(text) == expected


def test_rows_have_the_names_that_are_given_to_them(tmp_path, capsys):
    build_run(tmp_path / "mate", metrics={"dev/em": 0.6})
    build_run(tmp_path / "tapas", model="tapas", metrics={"dev/em": 0.5})
    words = ["compare", str(tmp_path), "html=null", "labels={mate: 'Ours$_L$'}"]
    assert main([*words, f"latex={tmp_path / 'tables.tex'}"]) == 0
    text = (tmp_path / "tables.tex").read_text()
    assert "\nOurs$_L$ & " in text
    assert "\nTAPAS & " in text
    assert main(words) == 2
    assert "Add latex=FILE" in capsys.readouterr().err
    assert main([*words[:-1], "labels={sat: X}", f"latex={tmp_path / 'other.tex'}"]) == 2
    assert "labels: unknown configuration sat. Choose one of: mate | tapas" in capsys.readouterr().err
    assert not (tmp_path / "other.tex").exists()
