"""Pages of the documentation site that are made of what is there already; a hook of MkDocs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).resolve().parent.parent
FETCHED = re.compile(r'<script src="https?://[^"]*"></script>')
"""The theme would fetch what its search needs in pages of a folder."""
SEARCH = f"<script>{(ROOT / 'docs' / 'images' / 'search_from_a_folder.js').read_text(encoding='utf-8')}</script>"
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
"""Documents beside `docs/`, and their pages."""
NOTEBOOK = "start/mate_in_a_notebook"
"""A notebook below `docs/`, without its ending."""
SITE_LINKS = {
    "../../CONTRIBUTING.md": "../CONTRIBUTING.md",
    "../../conf": "../reference/configuration.md",
    "mate_in_a_notebook.ipynb": "mate_in_a_notebook.md",
    "../start/mate_in_a_notebook.ipynb": "../start/mate_in_a_notebook.md",
}
"""Links of pages in folders to a clone, and to the site."""
NO_PAGE = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(?:LICENSE|wandb_sweep\.yaml|runs/[^)]*)\)")
"""Links to files of a clone that are no pages."""
GROUPS_LAST = ("experiment", "sweep", "recipe", "debug")
"""Long groups: what they choose from is read first."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the documents beside `docs/` (the README is the start page), the notebook, and the reference of `conf/`."""
    from mkdocs.structure.files import File  # not installed where tests read this module

    for document, page in PAGES.items():
        content = (ROOT / document).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=content))
    files.append(File.generated(config, f"{NOTEBOOK}.md", content=notebook_page(ROOT / "docs" / f"{NOTEBOOK}.ipynb")))
    files.append(File.generated(config, "reference/configuration.md", content="\n".join(configuration(ROOT / "conf"))))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Lead links to files of a clone to their pages; of those without a page, keep the text."""
    for target, page in SITE_LINKS.items():
        markdown = markdown.replace(f"]({target})", f"]({page})")
    return NO_PAGE.sub(r"\1", markdown)


def on_post_page(output: str, **_: object) -> str:
    """Let the search of a page run in a folder, too, and without a network."""
    return FETCHED.sub(lambda _: SEARCH, output)


on_post_template = on_post_page  # of pages without a source: 404.html


def notebook_page(file: Path) -> str:
    """Return a notebook as a page: its texts and its code, and a link to the file."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(file.read_text("utf-8"))["cells"]]
    parts = [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in cells]
    return "\n\n".join([*parts, f"[Download the notebook]({file.name})"])


def configuration(root: Path) -> Iterator[str]:
    """Yield the lines of a page that shows every file of `conf/`: what it is for, then its keys."""
    yield "# Configuration\n"
    yield "A command is composed of one file of each group; `GROUP=FILE` chooses, `key=value` changes a value."
    yield "`mate train experiment=... --cfg job` prints what a command comes to.\n"
    for file in sorted(root.glob("*.yaml")):
        is_command = f"app_name: mate {file.stem}" in file.read_text(encoding="utf-8")
        yield from described(file, f"mate {file.stem}" if is_command else "Every command", "##")
    groups = sorted({file.parent for file in root.rglob("*.yaml")} - {root}, key=lambda group: _place(group, root))
    for group in groups:
        yield f"\n## {group.relative_to(root).as_posix()}\n"
        for file in sorted(group.glob("*.yaml")):
            yield from described(file, file.stem, "###")


def described(file: Path, title: str, level: str) -> Iterator[str]:
    """Yield a heading, the comment that a file begins with, and its keys."""
    lines = file.read_text(encoding="utf-8").splitlines()
    start = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    said = [line.lstrip("# ") for line in lines[:start] if not line.startswith("# @package")]
    yield f"\n{level} {title}\n"
    yield from (f"    {line}" for line in said)
    yield "\n```yaml"
    yield from lines[start:]
    yield "```"


def _place(group: Path, root: Path) -> tuple[bool, str]:
    name = group.relative_to(root).as_posix()
    return name.startswith(GROUPS_LAST), name
