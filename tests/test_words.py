"""Words of the code: how docstrings open, and which names are public."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "mate_cli"
# A docstring that opens with one of these describes around a thing rather than naming it.
OPENINGS = re.compile(r"(?:What|Whether|Which|How|That|Those|These|This|Of|They|Their|It|Who|Whose|Where|When)\b")


def test_docstrings_open_with_a_verb_or_a_noun() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if OPENINGS.match(text):
                    found.append(f"{path.relative_to(PACKAGE)}: {getattr(node, 'name', 'module')}: {text[:60]}")
    assert not found, "\n".join(found)
