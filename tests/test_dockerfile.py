"""The Dockerfile: what it is built from is pinned and there, and what runs is no root."""

import re
from pathlib import Path

from golden import ROOT


def instructions(name="Dockerfile"):
    """Pairs of an instruction and what it is given, with lines that go on joined."""
    text = (ROOT / name).read_text(encoding="utf-8")
    joined = re.sub(r"\\\n\s*", "", "\n".join(line for line in text.splitlines() if not line.startswith("#")))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def given(name):
    return [words for instruction, words in instructions() if instruction == name]


def test_base_images_are_pinned_and_of_a_python_that_the_package_takes():
    for image in given("FROM"):
        name, _, tag = image.partition(":")
        assert (name, tag.partition("-")[0].count(".")) == ("python", 2), image
        low, high = re.search(
            r'requires-python = ">=(3\.\d+),<(3\.\d+)"', (ROOT / "pyproject.toml").read_text()
        ).groups()
        minor = int(tag.split(".")[1])
        assert int(low[2:]) <= minor < int(high[2:])


def test_all_that_is_copied_is_there_and_is_sent():
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for words in given("COPY"):
        *sources, _ = words.split()
        for source in sources:
            assert Path(ROOT, source).exists(), source
            assert f"!{source}" in ignored


def test_what_is_installed_has_the_extras_that_the_package_names():
    (install,) = [words for words in given("RUN") if "-c constraints.txt" in words]
    extras = re.search(r"\.\[(.*?)\]", install)[1].split(",")
    table = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    assert [extra for extra in extras if not re.search(rf"^{extra} = ", table, re.MULTILINE)] == []


def test_commands_are_run_by_a_user_that_is_no_root():
    names = [name for name, _ in instructions()]
    (user,) = given("USER")
    assert user not in ("root", "0")
    assert any("useradd" in words and user in words for words in given("RUN"))
    assert names.index("USER") > max(place for place, name in enumerate(names) if name == "RUN")
    assert given("ENTRYPOINT") == ['["mate"]']
