"""`mate compare`: runs side by side, as tables in the terminal and one page with curves and plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from mate_cli.reports.report import Report

CONFIG = "compare"
TAKES_VALUE = frozenset(
    {"--cfg", "-c", "--package", "-p", "--config-path", "-cp", "--config-name", "-cn", "--config-dir", "-cd"}
)


def arguments(words: Sequence[str]) -> list[str]:
    """Turn the folders among the words after `mate compare` into the key `runs`; the rest stays as it is."""
    folders: list[str] = []
    rest: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        (folders if before not in TAKES_VALUE and is_folder(word) else rest).append(spelled(word))
    return [*rest, f"runs=[{','.join(map(quoted, folders))}]"] if folders else rest


def spelled(word: str) -> str:
    """Quote the label after `against=`, whose spaces and signs Hydra's grammar would stumble over."""
    key, sign, label = word.partition("=")
    plain = label == "null" or label.startswith(("'", '"', "${"))
    return f"{key}={quoted(label)}" if sign and key.lstrip("+") == "against" and not plain else word


def is_folder(word: str) -> bool:
    """Say whether a word names a folder: one that exists, or anything that is no flag and no `key=value`."""
    return Path(word).is_dir() or ("=" not in word and not word.startswith(("-", "~", "+")))


def quoted(folder: str) -> str:
    """Return a folder as a quoted string of Hydra's grammar."""
    slashes = len(folder) - len(folder.rstrip("\\"))
    escaped = folder.replace("'", "\\'") + "\\" * slashes
    return f"'{escaped}'"


def run(cfg: DictConfig) -> None:
    """Compare the runs that the configuration names; print the tables and write the files it asks for."""
    from mate_cli.reports.report import build_report
    from mate_cli.reports.significance_terminal import print_significance
    from mate_cli.reports.terminal import print_report, report_console

    report = build_report(
        words(cfg.runs),
        metric=cfg.metric,
        by=words(cfg.by),
        status=words(cfg.status),
        ignore=words(cfg.ignore),
        against=cfg.against,
    )
    console = report_console()
    print_report(report, console)
    if report.significance:
        print_significance(report.significance, console)
    for name, file in write_files(cfg, report):
        console.print(f"{name}: {file}", soft_wrap=True)


def words(value: object) -> list[str]:
    """Return one value, a list of them, or null as a list of strings."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(one) for one in value]  # type: ignore[attr-defined]


def write_files(cfg: DictConfig, report: Report) -> list[tuple[str, Path]]:
    """Write the page, figures, JSON and CSV as far as the configuration wants them, and return what was written."""
    from mate_cli.reports.export import report_csv, report_json, write_text

    written = []
    if cfg.html is not None:
        from mate_cli.reports.html import write_page

        page = Path(report.folders[0]) / "compare.html" if cfg.html == "auto" else Path(cfg.html)
        written.append(("page", write_page(report, page)))
    if cfg.figures is not None:
        from mate_cli.reports.figures import write_figures

        written += [("figure", file) for file in write_figures(report, Path(cfg.figures))]
    for name, file, text in (("json", cfg.json, report_json), ("csv", cfg.csv, report_csv)):
        if file is not None:
            written.append((name, write_text(Path(file), text(report))))
    return written
