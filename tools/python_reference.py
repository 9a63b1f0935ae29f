"""Write docs/reference/python.md: the signatures of what people build on, read from the code without importing it."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "python.md"
TITLE = """# Python

These are the parts from which you build a network, a task or a metric of your own, with their signatures.
[Add your own network](../how-to/add_your_own_network.md) shows them at work. To use a trained model you need less:
[use MATE in Python](../how-to/use_in_python.md).
"""
SECTIONS = {
    "Networks": (
        "mate_cli.models.base.table_encoder.TableEncoder",
        "mate_cli.models.base.table_encoder.EncoderOutput",
        "mate_cli.models.layers.encoder.LayerSpec",
        "mate_cli.models.tapas.Tapas",
        "mate_cli.models.mate.MateEncoder",
        "mate_cli.models.dot.Dot",
    ),
    "Attention": (
        "mate_cli.attention.patterns.AttentionPattern",
        "mate_cli.attention.patterns.SegmentedPattern",
        "mate_cli.attention.base.AttentionBackend",
    ),
    "Tables and encodings": (
        "mate_cli.tables.table.Table",
        "mate_cli.tables.table.Cell",
        "mate_cli.tables.example.TableExample",
        "mate_cli.tables.example.Answer",
        "mate_cli.tokenization.layout.TableBatch",
        "mate_cli.tokenization.layout.Array",
        "mate_cli.tokenization.serializers.serializer.Serializer",
    ),
    "Tasks and metrics": (
        "mate_cli.lit_modules.base.TableTask",
        "mate_cli.lit_modules.base.TaskSpec",
        "mate_cli.models.base.table_encoder.TaskContext",
        "mate_cli.metrics.specs.Metric",
        "mate_cli.metrics.specs.MetricSpec",
    ),
}


def page() -> str:
    """Return the whole page."""
    parts = [TITLE]
    for section, names in SECTIONS.items():
        parts.append(f"## {section}\n")
        parts += [described(name) for name in names]
    return "\n".join(parts)


def described(name: str) -> str:
    """Return the heading of a class, its summary, its signatures and what its arguments are."""
    module, _, title = name.rpartition(".")
    tree = ast.parse(ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8"))
    (node,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == title)
    summary, entries = read_docstring(ast.get_docstring(node) or "")
    for function in public_functions(node):
        line, _ = read_docstring(ast.get_docstring(function) or "")
        entries.append((function.name, line))
    text = f"### {title}\n\n`{module}`. {summary}\n\n```python\n{chr(10).join(signatures(node))}\n```\n"
    return "\n".join([text, *(f"- `{entry}`: {meaning}" for entry, meaning in entries if meaning), ""])


def public_functions(node: ast.ClassDef) -> list[ast.FunctionDef]:
    """Return the methods and properties of a class that others may call or override."""
    return [item for item in node.body if isinstance(item, ast.FunctionDef) and not item.name.startswith("_")]


def signatures(node: ast.ClassDef) -> Iterator[str]:
    """Yield the lines of a class: its fields, how it is made, and its public methods and properties."""
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class {node.name}({bases}):" if bases else f"class {node.name}:"
    yield from (f"    {ast.unparse(item)}" for item in node.body if isinstance(item, ast.AnnAssign))
    made = [item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__"]
    for function in [*made, *public_functions(node)]:
        returns = f" -> {ast.unparse(function.returns)}" if function.returns and function not in made else ""
        if {"property", "cached_property"} & {*map(ast.unparse, function.decorator_list)}:
            yield f"    {function.name}: {returns.removeprefix(' -> ')}"
        else:
            head = f"    def {function.name}({ast.unparse(function.args)}){returns}"
            yield textwrap.fill(head, 84, subsequent_indent=" " * 8, break_long_words=False, break_on_hyphens=False)


def read_docstring(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the first line of a docstring, and its arguments with what they are."""
    listed = re.search(r"^Args:\n((?:    .*\n?|\n)*)", text, re.MULTILINE)
    entries = re.split(r"^    (?=\S)", listed[1], flags=re.MULTILINE)[1:] if listed else []
    pairs = (entry.partition(":") for entry in entries)
    return text.partition("\n")[0], [(name.strip(), " ".join(meaning.split())) for name, _, meaning in pairs]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.relative_to(ROOT), file=sys.stderr)
