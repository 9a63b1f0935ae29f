"""`mate data`: list, check, download or export datasets, or prune cached encodings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.cli.commands.completion import DATA_ACTIONS as ACTIONS
from mate_cli.cli.commands.evaluate import quote_value
from mate_cli.errors import ConfigError, DataError

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Data


def convert_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert a positional action to an override, as in `check` to `action=check`.

    Without arguments, the action is `list`.
    """
    overrides = [f"action={word}" if word in ACTIONS else word for word in arguments or ["list"]]
    return [quote_value(word) if word.startswith("perturb") else word for word in overrides]


def accepts_argument(argument: str) -> bool:
    """Return whether an argument is an action, such as `check`, instead of an override."""
    return argument in ACTIONS


def run(cfg: Data) -> None:
    """Run the configured action: list, check, export or download datasets, or prune the cache.

    Raises:
        DataError: if the check found problems (after printing them), or the download fails.
    """
    from hydra.utils import instantiate

    if cfg.action == "list":
        from mate_cli.reports.dataset_tables import print_datasets
        from mate_cli.terminal.console import report_console

        print_datasets(Path(cfg.paths.data).expanduser(), report_console())
        return
    if cfg.action == "export":
        _export(cfg)
        return
    if cfg.action == "prune":
        from mate_cli.data.loading.cache import prune_cache
        from mate_cli.reports.format import plural

        count, size = prune_cache(Path(cfg.paths.cache), cfg.days)
        print(f"{plural(count, 'file')} of encodings and unfinished corpora removed, {size / 1e6:,.1f} MB")
        return
    # A check must not download data, and the action `download` calls `fetch` explicitly.
    dataset = instantiate({**cfg.data, "download": False} if "download" in cfg.data else cfg.data)
    if cfg.action == "download":
        _download(dataset)
    else:
        _check(dataset, cfg.report, cfg.tokenizer)


def _export(cfg: Data) -> None:
    """Write the questions of a split, and optionally their encodings, to the file `to`.

    Raises:
        ConfigError: if `to` or `tokenizer` is missing, or the file cannot be written.
    """
    from hydra.utils import get_class, instantiate

    if not cfg.to:
        raise ConfigError("needs a value", where="to", remedy="Write to=questions.jsonl")
    if cfg.encoding and not cfg.tokenizer:
        raise ConfigError("needs a value with encoding", where="tokenizer", remedy="Write tokenizer=minilm")
    from mate_cli.data.perturbation import check_perturbations, perturb_dataset
    from mate_cli.data.question_export import export_questions
    from mate_cli.files.atomic import check_writable
    from mate_cli.reports.format import plural
    from mate_cli.tokenization.vocabulary import load_tokenizer

    to = Path(cfg.to or "").expanduser()
    check_writable(to, f"to={cfg.to}")
    check_perturbations(cfg.perturb)
    # Perturbed questions are those of runs, whose cells may be normalized.
    as_written = {} if cfg.perturb else getattr(get_class(cfg.data["_target_"]), "as_written", {})
    dataset = instantiate({**cfg.data, **as_written})
    examples = list(dataset.examples(cfg.split))
    for perturbed in perturb_dataset(dataset, cfg.perturb, cfg.perturb_seed):
        questions = perturbed.examples(cfg.split)
        examples += [replace(question, example_id=question.example_id + perturbed.suffix) for question in questions]
        excluded = perturbed.describe_excluded(cfg.split) or "no question"
        print(f"{perturbed.suffix}: {plural(len(questions), 'question')}; excluded: {excluded}")
    encoded = None
    if cfg.encoding:
        serializer = instantiate(cfg.encoding, tokenizer=load_tokenizer(str(cfg.tokenizer)))
        encoded = serializer, instantiate(cfg.data).examples(cfg.split) if as_written else examples
    count = export_questions(examples, to, answers=cfg.answers, encoded=encoded)
    skipped_text = f", {len(examples) - count:,} left out that cannot be encoded" if count < len(examples) else ""
    print(f"{to}: {plural(count, 'question')}{skipped_text}")


def _download(dataset: object) -> None:
    fetch = getattr(dataset, "fetch", None)
    if fetch is None:
        from mate_cli.data.datasets.catalogue import all_datasets

        public_datasets = ", ".join(info.name for info in all_datasets() if info.files)
        hint = f"Datasets with one: {public_datasets}"
        raise DataError("has no public release", where=type(dataset).__name__, remedy=hint)
    fetch()
    print(f"{getattr(dataset, 'root', 'the dataset')} is complete.")


def _check(dataset: Any, report_path: str | None, tokenizer: str | None) -> None:  # noqa: ANN401 - any dataset
    from mate_cli.data.datasets.catalogue import find_info
    from mate_cli.files.atomic import write_text
    from mate_cli.files.safe_load import to_json
    from mate_cli.reports.dataset_tables import print_check
    from mate_cli.reports.format import plural
    from mate_cli.terminal.console import report_console

    check = getattr(dataset, "check", None)
    if check is None:
        raise DataError("has no files to check", where=type(dataset).__name__)
    report = check()
    info = find_info(type(dataset))
    report = replace(report, papers=info.papers if info else ())
    if tokenizer and not report.problems:
        from mate_cli.data.input_sizes import with_input_sizes
        from mate_cli.tokenization.vocabulary import load_tokenizer

        report = with_input_sizes(report, dataset, load_tokenizer(tokenizer))
    title = ": ".join(str(getattr(dataset, name)) for name in ("name", "root") if hasattr(dataset, name))
    print_check(report, title, report_console())
    if report_path:
        write_text(Path(report_path).expanduser(), to_json(asdict(report), indent=2))
    if report.problems:
        problem, root = plural(len(report.problems), "problem"), str(getattr(dataset, "root", ""))
        raise DataError(problem, where=root, remedy="See above; report=FILE writes all")
