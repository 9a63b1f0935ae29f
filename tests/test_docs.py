"""What the documents name exists: links, commands, choices and keys."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import shlex
from pathlib import Path

import pytest
import yaml
from configurations import composed, sweep_jobs
from omegaconf import OmegaConf

from mate_cli.cli import app
from mate_cli.cli.config.resolve import resolve
from mate_cli.cli.config_dir import config_dir
from mate_cli.metrics.specs import metric_specs

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
NOTEBOOKS = sorted((ROOT / "docs").rglob("*.ipynb"))
MADE = {"index.md", "start/mate_in_a_notebook.md", "reference/configuration.md", "CONTRIBUTING.md", "CHANGELOG.md"}
"""Pages of the site that `tools/site.py` makes."""
TOPS = ("", "mate_cli", "mate_cli/tokenization")
"""Folders from which documents name files."""
GIVEN = {"evaluate": ["run=x"], "predict": ["run=x"], "export": ["run=x", "to=x"]}


def code_lines(document):
    """Lines of a document's shell blocks."""
    blocks = re.findall(r"```(?:bash|sh|console)\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]


COMMANDS = sorted({line for document in DOCUMENTS for line in code_lines(document) if line.startswith("mate ")})


def anchors(document):
    """Anchors of a document's headings, as GitHub and the site make them."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    found = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return [re.sub(r"-+", "-", anchor) for anchor in found]


def name_of(document):
    return document.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("document", [*DOCUMENTS, *NOTEBOOKS], ids=name_of)
def test_links(document):
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", text)
    for path, anchor in [(path, anchor) for path, anchor in targets if not path.startswith(("http://", "https://"))]:
        target = document.parent / path if path else document
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


@pytest.mark.sampled(15)
@pytest.mark.parametrize("line", COMMANDS)
def test_commands(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "concepts" / "experiment_scale_recipe.md").read_text(encoding="utf-8")
    first_try = tmp_path / "conf" / "experiment" / "first_try.yaml"
    first_try.parent.mkdir(parents=True)
    first_try.write_text(re.search(r"```yaml\n(.*?)```", page, flags=re.DOTALL)[1])
    compose_line(shlex.split(line, comments=True))


def compose_line(words):
    """Compose what a command would do; of a sweep, its first job."""
    command, *words = words[1:]
    assert command in app.COMMANDS
    module = importlib.import_module(f"mate_cli.cli.commands.{app.COMMAND_ALIASES.get(command, (command,))[0]}")
    if hasattr(module, "convert_arguments"):
        words = module.convert_arguments(words)
    if command == "explain":
        assert app.main([command, *words]) == 0
    elif command not in {"completion", "doctor", "run"}:
        one_of_each = [re.sub(r"^([^=]+=(?:\[[^\]]*\]|[^\[{'\",]+)),.*", r"\1", word) for word in words if "=" in word]
        one_of_each = [word for word in one_of_each if not word.startswith("init=run:")]  # needs that run
        if command == "train":
            compose_stages(first_job(one_of_each))
        else:
            composed(config_dir(), command, [*GIVEN.get(command, []), *one_of_each])


def first_job(words):
    """What the first job of a sweep is trained with; the words of a single run stay as they are."""
    typed = [word for word in words if not word.startswith("sweep=")]
    for name in [word.removeprefix("sweep=") for word in words if word.startswith("sweep=")]:
        return sweep_jobs(config_dir() / "sweep" / f"{name}.yaml", typed)[0]
    return typed


def compose_stages(words):
    """Compose what is typed for `mate train`; the runs that stand in for stages are not there."""
    taken = [found[1] for word in words if (found := re.fullmatch(r"stages\.(\w+)\.run=.*", word))]
    plan = resolve([word for word in words if not re.match(r"stages\.\w+\.run=", word)])
    assert set(taken) <= {stage.name for stage in plan.stages}


def test_the_files_of_the_cluster_page_start_mate():
    page = (ROOT / "docs" / "how-to" / "run_on_a_cluster.md").read_text(encoding="utf-8")
    job, sky = map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    replicas = job["spec"]["pytorchReplicaSpecs"].values()
    arguments = [one["template"]["spec"]["containers"][0]["args"] for one in replicas]
    assert all(one == arguments[0] for one in arguments)
    assert f"hardware.nodes={sum(one['replicas'] for one in replicas)}" in arguments[0]
    torchrun = re.search(r"^torchrun .*?-m mate_cli (train .*?)\n```", page, re.DOTALL | re.MULTILINE)[1]
    for words in (arguments[0], shlex.split(sky["run"])[1:], shlex.split(torchrun.replace("\\\n", " "))):
        compose_line(["mate", *words])


def test_the_reference_shows_every_command():
    page = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `mate (\w+)` \|", page, re.MULTILINE) == list(app.COMMANDS)
    assert len(COMMANDS) >= 4


def test_the_site_has_every_document():
    nav = OmegaConf.to_container(OmegaConf.load(ROOT / "mkdocs.yml").nav)
    pages = re.findall(r"'([\w/-]+\.md)'", str(nav))
    docs = ROOT / "docs"
    assert sorted(pages) == sorted([path.relative_to(docs).as_posix() for path in docs.rglob("*.md")] + [*MADE])


def test_the_configuration_page_has_every_key():
    page = "\n".join(load_tool("site").configuration(ROOT / "conf"))
    files = sorted((ROOT / "conf").rglob("*.yaml"))
    assert len(re.findall(r"^(?:## (?:mate|Every)|### )", page, re.MULTILINE)) == len(files) > 100
    for file in files:
        keys = re.findall(r"^[\w.]+:.*$", file.read_text(encoding="utf-8"), re.MULTILINE)
        assert [key for key in keys if key not in page] == []


def load_tool(name):
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_python_page_has_the_signatures_of_the_code():
    tool = load_tool("python_reference")
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "type: make reference"
    for name in (name for names in tool.SECTIONS.values() for name in names):
        module, _, title = name.rpartition(".")
        assert inspect.isclass(getattr(importlib.import_module(module), title))


def test_the_page_of_metrics_has_every_metric():
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
    assert [name for name in metric_specs() if f"`{name}`" not in page] == []


def test_code_that_documents_name_exists():
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        named = re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.py)`", text) + re.findall(r"python (tools/\S+\.py)", text)
        files = [name for name in named if Path(name).stem not in {"x", "NAME"}]
        assert [name for name in files if not any((ROOT / top / name).exists() for top in TOPS)] == []


def test_pages_that_code_names_exist():
    files = [path for top in ("mate_cli", "conf", "tools") for path in (ROOT / top).rglob("*.*")]
    texts = [path.read_text(encoding="utf-8") for path in files if path.suffix in {".py", ".yaml"}]
    named = {name for text in texts for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|yaml)\b", text)}
    assert len(named) > 4
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_make_targets_exist():
    named = {
        target
        for document in DOCUMENTS
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", document.read_text("utf-8"), re.MULTILINE)
    }
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named <= made
