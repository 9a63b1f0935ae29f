from __future__ import annotations

import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from rich.console import Console

from mate_cli.errors import RunError
from mate_cli.reports.compare.report import build_report
from mate_cli.reports.export.data_files import report_csv, report_json
from mate_cli.reports.page import asset, environment, render_page, write_page
from mate_cli.reports.plots.style import COLORS
from mate_cli.reports.terminal import print_report
from tests.reports.runs import build_demo, build_run
from tests.reports.study import build_study

KEYS = (
    *("status", "reason", "argv", "overrides", "dataset", "model", "init", "task", "command", "seed", "started"),
    *("wall_seconds", "device", "versions", "parameters", "metrics", "throughput", "peak_memory_mb", "step", "dev/em"),
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.just(10**400) | st.text(max_size=12)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)
VOID = {"meta", "br", "hr", "input", "link"}
LOADING = {"src", "srcset", "data", "poster", "action", "background"}


class Page(HTMLParser):
    """Reads a page strictly: every element is closed in order; collects texts, attributes and ids.

    Places where a line may break are no part of a text.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: dict[str, str] = {}
        self.script = ""
        self.feed(text.replace("<wbr>", ""))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag == "script":
            self.script = dict(attributes).get("id", "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)
        elif self.open[-1] == "script":
            self.scripts[self.script] = self.scripts.get(self.script, "") + data

    def data(self, name: str) -> dict[str, Any]:
        return json.loads(self.scripts[name])

    def values(self, name: str) -> list[str]:
        return [value for _, key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return build_demo(tmp_path_factory.mktemp("outputs"))


@pytest.fixture(scope="module")
def page(demo):
    return Page(render_page(build_report([demo]), demo))


def test_each_run_is_there_and_linked(demo, page):
    links = [demo / value for value in page.values("href") if not value.startswith("#")]
    runs = [file.parent for file in demo.rglob("record.json")]
    assert sorted(link.resolve() for link in links if link.is_dir()) == sorted(run.resolve() for run in runs)
    files = [link for link in links if not link.is_dir()]
    assert {link.name for link in files} == {"config.yaml", "record.json"}
    assert all(link.is_file() for link in files)


def test_the_command_of_a_run_can_be_pasted(tmp_path):
    build_run(tmp_path / "run", argv=["mate train", "stages.reader.data.name=my table"])
    page = render_page(build_report([tmp_path]), tmp_path)
    assert "mate train &#39;stages.reader.data.name=my table&#39;" in page


def test_sections_numbers_and_reasons_are_there(page):
    text = " ".join(page.texts)
    for expected in (
        *("Learning curves", "Settings that differ", "Hardware and versions", "OutOfMemoryError", "2.13.0", "lab-3"),
    ):
        assert expected in text
    assert {"tfidf baseline", "Copy", "optimizer.lr", "73.6"} <= set(page.texts)
    assert "mate train experiment=hybridqa_sat seed=2" in page.values("data-text")


def test_long_keys_break_between_their_parts(tmp_path):
    build_run(tmp_path / "a", model="mate")
    build_run(tmp_path / "b", model="tapas", config={"trainer": {"batch_size": 8, "max_epochs": 5}})
    text = (
        render_page(build_report([tmp_path]), tmp_path)
        .partition('<section id="settings">')[2]
        .partition("</section>")[0]
    )
    keys = re.findall(r'<th scope="row">(.+?)</th>', text)
    assert {key.replace("<wbr>", "") for key in keys} >= {"trainer.batch_size", "optimizer.lr"}, "theirs, and of all"
    assert all(".<wbr>" in key for key in keys)


def test_the_navigation_leads_somewhere(page):
    ids = page.values("id")
    targets = [value[1:] for tag, name, value in page.attributes if (tag, name) == ("a", "href") and value[0] == "#"]
    assert targets == ["results", "chart", "subsets", "curves", "cost", "settings", "runs", "environment"]
    assert set(targets) <= set(ids)


def test_ids_are_unique_and_references_stay_inside(page):
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    uses = [value for value in page.values("xlink:href") if value]
    assert uses
    assert {value[1:] for value in uses} <= set(ids)


def test_the_page_loads_nothing(demo, page):
    assert not LOADING & {name for _, name, _ in page.attributes if name != "data"}
    assert not {"link", "iframe", "img", "image", "object", "embed"} & set(page.tags)
    assert not [value for value in page.values("href") if re.match(r"\w+:|//", value)]
    text = render_page(build_report([demo]), demo)
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(", text)


def test_text_from_files_is_escaped_everywhere(tmp_path):
    evil = '</script><script>alert("x")</script>&"\''
    build_run(
        tmp_path / "a <script>b",
        model=evil,
        reason=evil,
        status="failed",
        device=evil,
        versions={evil: evil},
        argv=["mate", evil],
        config={evil: evil},
    )
    build_run(
        tmp_path / "b",
        model=evil,
        dataset=evil,
        metrics={evil: 0.5, f"dev/{evil}": 0.5, "baseline/<b>x/dev/em": 0.2, "dev/em": 0.1},
    )
    (tmp_path / "b" / "metrics.jsonl").write_text('{"step": 1, "dev/<script>": 0.5, "dev/a$\\frac$": 0.5}\n')
    (tmp_path / "c <script>").mkdir()
    (tmp_path / "c <script>" / "record.json").write_text("{")
    page = Page(render_page(build_report([tmp_path]), tmp_path))
    assert page.tags.count("script") == 3
    assert evil in page.data("curve-data")["groups"][0]["label"]
    assert "b" not in page.tags
    assert any(evil in text for text in page.texts)


def test_one_run_without_anything(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "record.json").write_text("{}")
    page = Page(render_page(build_report([tmp_path]), tmp_path))
    assert "No run has recorded a metric yet." in " ".join(page.texts)
    assert "svg" not in page.tags


def test_many_configurations_are_limited_with_a_note(tmp_path):
    for number in range(35):
        build_run(tmp_path / f"{number}", model=f"model{number}", metrics={"dev/em": number / 100}, steps=4)
    page = Page(render_page(build_report([tmp_path]), tmp_path))
    text = " ".join(page.texts)
    assert "best 24 of 35 configurations" in text
    assert "best 30 of 35" in text
    data = page.data("curve-data")
    assert [group["label"] for group in data["groups"]] == [f"model{number}" for number in range(34, 10, -1)]
    assert "model0" in page.texts


@given(st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1), st.lists(st.dictionaries(st.sampled_from(KEYS), JSON)))
def test_no_record_breaks_a_report(entries, rows):
    with TemporaryDirectory() as folder:
        run = build_run(Path(folder) / "run", metrics={"dev/em": 0.5})
        record = json.loads((run / "record.json").read_text())
        (run / "record.json").write_text(json.dumps(record | entries))
        run.joinpath("metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        report = build_report([folder])
        Page(render_page(report, Path(folder)))
        json.loads(report_json(report))
        assert report_csv(report).startswith("run,")
        print_report(report, Console(file=io.StringIO(), width=80))


def test_the_page_is_the_same_twice(demo):
    report = build_report([demo])
    assert render_page(report, demo) == render_page(report, demo)


def test_writing_leaves_no_draft_and_a_refusal_is_said(demo, tmp_path):
    report = build_report([demo])
    file = write_page(report, tmp_path / "new" / "page.html")
    assert [path.name for path in file.parent.iterdir()] == ["page.html"]
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        write_page(report, tmp_path / "file" / "page.html")


def test_a_study_shows_parts_questions_and_published_figures(tmp_path):
    root = build_study(tmp_path, models=3, seeds=2, points=20, questions=60)
    text = render_page(build_report([root], metric="dev/em", against="mate"), root)
    page = Page(text)
    ids = page.values("id")
    assert {"significance", "chart", "subsets", "curves", "cost", "settings", "questions"} <= set(ids)
    words = " ".join(page.texts)
    for expected in ("by place of the answer", "PointR + MATE", "95 % interval"):
        assert expected in words
    assert {"✓", "✗", "◐"} & set(page.texts)
    published = re.findall(r'<tr class="published".*?</tr>', text)
    assert len(published) > 5
    assert not any(" best" in row or " close" in row for row in published)


def test_what_is_not_there_has_no_section(tmp_path):
    build_run(tmp_path / "run", metrics={"dev/loss": 1.0}, throughput={}, parameters=None, steps=0)
    ids = Page(render_page(build_report([tmp_path]), tmp_path)).values("id")
    assert not {"significance", "subsets", "curves", "questions", "curve-data"} & set(ids)


def test_the_colours_of_the_page_are_those_of_the_figures():
    css = asset("compare.css")
    light, dark = (re.findall(r"--c\d: (#\w{6})", part) for part in css.split("prefers-color-scheme: dark")[:2])
    assert tuple(light) == COLORS
    assert len(dark) == len(COLORS)


def test_templates_escape_what_is_not_markup_and_leave_out_control_characters():
    template = environment().from_string('<a title="{{ text }}">{{ text }}{{ markup }}{{ missing }}</a>')
    assert template.render(text='<b>"\x1b\u202e', markup=Markup("<i></i>"), missing=None) == (
        '<a title="&lt;b&gt;&#34;">&lt;b&gt;&#34;<i></i></a>'
    )
