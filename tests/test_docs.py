"""What the documents name exists: links, commands, choices and keys."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import pytest
from configurations import composed, sweep_words
from omegaconf import OmegaConf

from mate_cli.cli import app
from mate_cli.cli.config.plan import compose_plan
from mate_cli.cli.config.words import of_job
from mate_cli.cli.config_dir import config_dir

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
GIVEN = {"evaluate": ["run=x"], "predict": ["run=x"], "export": ["run=x", "to=x"]}


def code_lines(document):
    """Lines of a document's shell blocks."""
    blocks = re.findall(r"```(?:bash|sh|console)\n(.*?)```", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines()]


COMMANDS = sorted({line for document in DOCUMENTS for line in code_lines(document) if line.startswith("mate ")})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links(document):
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    local = [target for target in targets if not target.startswith(("http://", "https://"))]
    assert [target for target in local if not (document.parent / target).exists()] == []


@pytest.mark.parametrize(
    "line",
    [pytest.param(line, marks=[] if place % 15 == 0 else pytest.mark.long) for place, line in enumerate(COMMANDS)],
)
def test_commands(line):
    command, *words = shlex.split(line, comments=True)[1:]
    assert command in app.commands()
    module = importlib.import_module(f"mate_cli.cli.commands.{command}")
    if hasattr(module, "arguments"):
        words = module.arguments(words)
    if command != "completion":
        one_of_each = [re.sub(r"^([^=]+=(?:\[[^\]]*\]|[^\[{'\",]+)),.*", r"\1", word) for word in words if "=" in word]
        if command == "train":
            compose_stages(first_job(one_of_each))
        else:
            composed(config_dir(), command, [*GIVEN.get(command, []), *one_of_each])


def first_job(words):
    """What the first job of a sweep is trained with; the words of a single run stay as they are."""
    values = {}
    for name in [word.removeprefix("sweep=") for word in words if word.startswith("sweep=")]:
        values |= sweep_words(config_dir() / "sweep" / f"{name}.yaml")
    return of_job([*(choices[0] for choices in values.values()), *words], [*values, *words])


def compose_stages(words):
    """Compose what is typed for `mate train`; the runs that stand in for stages are not there."""
    taken = [found[1] for word in words if (found := re.fullmatch(r"stages\.(\w+)\.run=.*", word))]
    plan = compose_plan([word for word in words if not re.match(r"stages\.\w+\.run=", word)])
    assert set(taken) <= {stage.name for stage in plan.stages}


def test_the_readme_shows_every_command():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name in app.commands() if f"| `mate {name}` |" not in readme] == []
    assert len(COMMANDS) >= 4


def test_the_site_has_every_document():
    nav = OmegaConf.to_container(OmegaConf.load(ROOT / "mkdocs.yml").nav)
    pages = re.findall(r"'(\w+\.md)'", str(nav))
    assert sorted(pages) == sorted(
        [path.name for path in (ROOT / "docs").glob("*.md")] + ["index.md", "configuration.md"]
    )


def test_make_targets_exist():
    named = {
        target for document in DOCUMENTS for target in re.findall(r"\bmake ([a-z-]+)", document.read_text("utf-8"))
    }
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert named <= made
