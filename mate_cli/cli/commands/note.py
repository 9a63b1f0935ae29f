"""`mate note RUN TEXT`: write a note about a run."""

from __future__ import annotations

from collections.abc import Sequence

from mate_cli.errors import ConfigError

HELP = """Write a note about a run, which mate list runs shows.

Usage: mate note RUN [TEXT]

Examples
  mate note outputs/train/quickstart/first "wrong labels, do not cite"
  mate note outputs/train/quickstart/first

Without TEXT it prints the note; TEXT "" removes it."""


def run_plain(arguments: Sequence[str]) -> int:
    """Write the note of a run, or print the note if no text is given.

    Raises:
        ConfigError: if no run is named, or the text is too long.
        RunError: if the folder is not a run, or cannot be written.
    """
    from mate_cli.cli.commands.list import MAX_NOTE, NOTE, read_note
    from mate_cli.runs.folders import open_run

    folder, text = open_run(arguments[0], "mate note"), " ".join(arguments[1:]).removeprefix("text=")
    if len(text.encode(errors="replace")) > MAX_NOTE:
        raise ConfigError(f"has more than {MAX_NOTE:,} bytes", where="note", remedy="Write less")
    if len(arguments) == 1:
        print(read_note(folder.path))
    elif text:
        folder.write_text(NOTE, f"{text}\n")
    else:
        folder.place(NOTE).unlink(missing_ok=True)
    return 0
