"""Count the lines of Python of the package, room by room, as they are now or as they were in revisions of git.

python tools/count_lines.py                    # the working tree
python tools/count_lines.py v0.3.0 .           # a revision, and the working tree behind it, with the difference
python tools/count_lines.py --folder tests .   # another folder

Code is what is left without blank lines, comments, docstrings and imports.
"""

import argparse
import ast
import io
import subprocess
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

NOW = "."
"""What stands for the working tree among revisions."""
KINDS = ("code", "lines", "files")
ALL = "all"


def read_sources(revision: str, folder: str) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the path and text of each Python file of a folder, also of new ones that git does not ignore."""
    if revision == NOW:
        listed = git("ls-files", "--cached", "--others", "--exclude-standard", "--", folder).decode().splitlines()
        paths = [path for path in map(Path, sorted(set(listed))) if path.suffix == ".py" and path.is_file()]
        yield from ((PurePosixPath(path), path.read_text(encoding="utf-8")) for path in paths)
        return
    with tarfile.open(fileobj=io.BytesIO(git("archive", revision, "--", folder))) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".py") else None
            if file is not None:
                yield PurePosixPath(member.name), file.read().decode()


def git(*words: str) -> bytes:
    """Return what git prints.

    Raises:
        SystemExit: git refuses, with its own words.
    """
    found = subprocess.run(["git", *words], capture_output=True, check=False)
    if found.returncode:
        sys.exit(found.stderr.decode().strip())
    return found.stdout


def count_code(text: str) -> int:
    """Count the lines of a file that are neither blank nor a comment, a docstring or an import."""
    rest = {number for number, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"}
    for node in ast.walk(ast.parse(text)):
        is_text = (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        )
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            rest -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(rest)


def count_rooms(revision: str, folder: str) -> dict[str, Counter[str]]:
    """Count code, lines and files of each room, a folder or file directly below `folder`, and of all."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for path, text in read_sources(revision, folder):
        counts = Counter(code=count_code(text), lines=len(text.splitlines()), files=1)
        for room in (path.relative_to(folder).parts[0], ALL):
            rooms[room].update(counts)
    return rooms


def print_rooms(found: Mapping[str, Mapping[str, Counter[str]]]) -> None:
    """Print a row for each room and three columns for each revision; of two, the difference too."""
    columns = dict(found)
    rooms = [*sorted({room for one in found.values() for room in one} - {ALL}), ALL]
    if len(found) == 2:
        before, after = found.values()
        signed = {room: Counter(after.get(room, {})) for room in rooms}
        for room, counts in signed.items():
            counts.subtract(before.get(room, {}))
        columns["difference"] = signed
    print(" " * 16, *(f"{name[:24]:>24}" for name in columns))
    print(" " * 16, *(f"{kind:>{8}}" for _ in columns for kind in KINDS), sep="")
    for room in rooms:
        values = [
            f"{one.get(room, Counter())[kind]:>{'+' if name == 'difference' else ''}8,}"
            for name, one in columns.items()
            for kind in KINDS
        ]
        print(f"{room:16}", *values, sep="")


def main() -> None:
    """Print what the command line names."""
    parser = argparse.ArgumentParser(description="Count lines of Python, room by room.")
    parser.add_argument("revisions", nargs="*", default=[NOW], help="of git; . is the working tree")
    parser.add_argument("--folder", default="mate_cli")
    words = parser.parse_args()
    print_rooms({revision: count_rooms(revision, words.folder) for revision in words.revisions})


if __name__ == "__main__":
    main()
