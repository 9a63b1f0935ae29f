"""Words of the code: how docstrings open, and what names say."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "mate_cli"
# A docstring that opens with one of these describes around a thing rather than naming it.
OPENINGS = re.compile(r"(?:What|Whether|Which|How|That|Those|These|This|Of|They|Their|It|Who|Whose|Where|When)\b")
# Participles and pronouns say nothing of a thing; a function begins with a verb, a class or a module is a noun.
BANNED = re.compile(
    "answered|anywhere|asked|asking|chosen|collected|computed|counted|encoded|explained|filtered|finished|given|"
    "handling|held|here|joined|kept|learnt|linked|loading|made|measured|named|opened|ours|own|own_.*|quoted|recorded|"
    "released|said|scored|seen|selected|shaping|spelled|stated|taken|theirs|together|told|trained|whole",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    """All modules of the package, parsed, by path."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def defined_names(body: list[ast.stmt]) -> list[str]:
    """Names of classes, functions and methods, private ones too, but for properties."""
    names = []
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            is_property = any("property" in ast.unparse(one) for one in node.decorator_list)
            names += [] if is_property else [node.name]
            names += defined_names(node.body) if isinstance(node, ast.ClassDef) else []
    return names


def test_docstrings_open_with_a_verb_or_a_noun(modules):
    found = []
    for path, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if OPENINGS.match(text):
                    found.append(f"{path}: {getattr(node, 'name', 'module')}: {text[:60]}")
    assert not found, "\n".join(found)


def test_names_are_no_participles_and_no_pronouns(modules):
    found = []
    for path, module in modules.items():
        names = [Path(path).stem, *defined_names(module.body)]
        found += [f"{path}: {name}" for name in names if BANNED.fullmatch(name.strip("_"))]
    assert not found, "\n".join(found)
