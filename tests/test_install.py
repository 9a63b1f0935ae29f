"""Lines that install something: they name the packages and extras of pyproject.toml, and no other project."""

import re
import runpy
import socket
import time
from itertools import chain
from pathlib import Path

import mate_cli

ROOT = Path(__file__).parents[1]
PROJECT, _, REST = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]\n")
OPTIONAL = REST.partition("\n[")[0]
EXTRAS = re.findall(r"^(\S+) = \[", OPTIONAL, re.MULTILINE)
PACKAGES = set(re.findall(r'"([a-z0-9-]+)(?:[><=].*?)?"', PROJECT.partition("dependencies = [")[2] + OPTIONAL))
NOT_IN_AN_EXTRA = {"mlflow", "tensorboard", "hydra-ray-launcher"}
TEXTS = [
    *chain((ROOT / "mate_cli").rglob("*.py"), (ROOT / "hydra_plugins").rglob("*.py"), (ROOT / "conf").rglob("*.yaml")),
    *chain((ROOT / "docs").rglob("*.md"), (ROOT / "docs").rglob("*.ipynb"), [ROOT / "README.md", ROOT / "Dockerfile"]),
]


def test_extras_named_to_a_user_exist():
    named = re.findall(
        r"\.(?:whl)?\[([a-z,]+)\]\"", " ".join(file.read_text() for file in TEXTS if file.suffix != ".py")
    )
    assert len(named) > 5
    assert {extra for words in named for extra in words.split(",")} <= set(EXTRAS)


def test_packages_named_to_a_user_are_those_that_the_extras_install():
    lines = [line for file in TEXTS for line in re.findall(r"\bpip install ([a-z][^\"'`\n.]*)", file.read_text())]
    named = {word for line in lines for word in line.split() if re.fullmatch(r"[a-z0-9-]{4,}", word)}
    assert len(named) > 5
    assert named <= PACKAGES | NOT_IN_AN_EXTRA


def test_extras_are_one_word():
    """pip before 23.3 does not find an extra with _ or - in its name, warns and goes on."""
    assert [extra for extra in EXTRAS if not extra.isalpha()] == []


def test_the_name_of_another_project_on_the_index_stands_nowhere():
    """`mate-cli` is theirs: pip would install it in place of this one."""
    other = "-".join(["mate", "cli"])
    files = [*TEXTS, *(ROOT / "mate_cli").rglob("*.md"), *(file for file in ROOT.glob("*") if file.is_file())]
    assert len(files) > 500
    assert [file.name for file in files if other.encode() in file.read_bytes()] == []


def test_the_wheel_in_the_documents_is_of_this_version():
    (version,) = set(re.findall(r"mate_tables-([\d.]+)-py3", (ROOT / "docs" / "start" / "install.md").read_text()))
    assert version == mate_cli.__version__


def test_indexes_that_do_not_answer_are_found_in_time():
    """An address that accepts a connection and is silent is the slowest case; pip would wait for each package."""
    tool = runpy.run_path(str(ROOT / "tools" / "install.py"))
    tool["is_reachable"].__globals__["CONNECT_SECONDS"] = 0.1
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent_index = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        start = time.monotonic()
        assert not tool["is_reachable"](silent_index)
        assert time.monotonic() - start < 5
    assert not tool["is_reachable"](silent_index)
    assert tool["is_reachable"]((ROOT / "docs").as_uri())


def test_the_environment_names_extra_indexes_before_the_files_of_pip():
    tool = runpy.run_path(str(ROOT / "tools" / "install.py"))
    files = "global.extra-index-url='https://a/simple\\nhttps://b/simple'\nglobal.cert='x'\n"
    assert tool["find_indexes"](files, "extra-index-url") == ["https://a/simple", "https://b/simple"]
    assert tool["find_indexes"](files + ":env:.extra-index-url='https://c'\n", "extra-index-url") == ["https://c"]
    assert tool["find_indexes"]("", "extra-index-url") == []
