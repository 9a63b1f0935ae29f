"""List every text of the package that a user can read: errors with their remedies, warnings, progress, help, headings.

python tools/messages.py                 # one line each: file, line, kind, text
python tools/messages.py --kind error    # errors alone
python tools/messages.py --longest 20    # the longest ones first

A placeholder stands for what is filled in: "{name}". Docstrings, SQL, HTML and patterns are left out.
"""

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "mate_cli"
ERRORS = re.compile(r"(Error|Interrupted)$")
WORDS = re.compile(r"[A-Za-z{][\w'{}`.=-]*[,;:]? +[a-z{`\"'0-9]")
"""At least two words of a sentence."""
MAX_LENGTH = 400
"""Longer texts are lists of words, grammars and scripts."""
NOT_FOR_READING = re.compile(r"^\s*(<|SELECT |CREATE |PRAGMA |INSERT |--|\(\?|[.#]?[\w-]+ *\{)|\\[bwsd]|\[\^")


@dataclass(frozen=True)
class Message:
    """A text of the package.

    Args:
        place: file and line.
        kind: "error" with its remedy, or "text".
        text: what is printed, with placeholders.
    """

    place: str
    kind: str
    text: str


def list_messages(root: Path = PACKAGE) -> Iterator[Message]:
    """Yield the messages of all modules below a folder, in the order of their places."""
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        skipped = {id(node) for node in _docstrings(tree)}
        found: list[tuple[int, Message]] = []
        for node in ast.walk(tree):  # parents first, so that the texts of an error are its own
            if _is_word_list(node):
                skipped.add(id(node))
            if id(node) in skipped:
                skipped |= {id(below) for below in ast.walk(node)}
                continue
            message = _message(node, f"{path.relative_to(root.parent)}:{getattr(node, 'lineno', 0)}")
            if message:
                found.append((node.lineno, message))  # type: ignore[attr-defined]
                skipped |= {id(below) for below in ast.walk(node)}
        yield from (message for _, message in sorted(found, key=lambda pair: pair[0]))


def _message(node: ast.AST, place: str) -> Message | None:
    """Return the message that a node is, if it is one."""
    if isinstance(node, ast.Call) and ERRORS.search(ast.unparse(node.func)):
        parts = [_text(argument) for argument in node.args[:1]]
        parts += [_text(keyword.value) for keyword in node.keywords if keyword.arg == "remedy"]
        text = " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in parts if part)
        return Message(place, "error", text) if text else None
    if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)):
        text = _text(node)
        if WORDS.search(text) and len(text) < MAX_LENGTH and not NOT_FOR_READING.search(text):
            return Message(place, "text", " ".join(text.split()))
    return None


def _text(node: ast.AST) -> str:
    """Return a text with placeholders; empty for what is computed elsewhere."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or f"{{{_name(value)}}}" for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_text(node.left) or f"{{{_name(node.left)}}}") + (_text(node.right) or f"{{{_name(node.right)}}}")
    if isinstance(node, ast.IfExp):
        return " / ".join(filter(None, (_text(node.body), _text(node.orelse))))
    return ""


def _name(node: ast.AST) -> str:
    return ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node)


def _is_word_list(node: ast.AST) -> bool:
    """Tell a text that is split at once."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.startswith("split")


def _docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every text that is a statement of its own."""
    yield from (
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def main() -> None:
    """Print the messages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("error", "text"))
    parser.add_argument("--longest", type=int, metavar="N")
    options = parser.parse_args()
    messages = [message for message in list_messages() if options.kind in (None, message.kind)]
    if options.longest:
        messages = sorted(messages, key=lambda message: -len(message.text))[: options.longest]
    for message in messages:
        print(f"{message.place}  {message.kind}  {message.text}")


if __name__ == "__main__":
    main()
