"""`mate predict`: answer questions about tables or databases, or of a dataset file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mate_cli.errors import ConfigError
from mate_cli.quoting import is_written, quote_list, quote_text

if TYPE_CHECKING:
    from mate_cli.cli.config.schema import Predict
    from mate_cli.pipelines.inference.predict_request import OpenTables
    from mate_cli.pipelines.inference.tables import LoadedModel
    from mate_cli.tables.questions import Session
    from mate_cli.tables.read_options import ReadOptions

    Answer = Callable[[Callable[[], LoadedModel], Callable[[str], None]], Session]
    """Function that answers all questions. Its arguments load the model and show the current task."""

LIST_KEYS = ("table", "question")
"""Keys that may be repeated on the command line. Their values are joined to a list."""
FILE_KEYS = ("database", "questions", "run", "checkpoint", "input", "output")
TEXT_KEYS = (*LIST_KEYS, *FILE_KEYS, "schema", "sheet", "text_encoding", "locale", "decimal", "delimiter", "quote")
"""Keys whose values are free text, such as file names and sentences, which is quoted for Hydra."""


def convert_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert the arguments of `mate predict`, such as questions, to Hydra overrides.

    Free-text values are quoted, and the values of a repeated key are joined to a list.
    """
    by_key: dict[str, list[str]] = {}
    other_arguments: list[str] = []
    for argument in arguments:
        key, sign, value = argument.partition("=")
        if sign and key in TEXT_KEYS and value[:1] + value[-1:] != "[]" and not is_written(value):
            by_key.setdefault(key, []).append(value)
        else:
            other_arguments.append(argument)
    final = {key: values if key in LIST_KEYS else values[-1:] for key, values in by_key.items()}
    texts = {key: quote_text(values[0]) if len(values) == 1 else quote_list(values) for key, values in final.items()}
    return [*other_arguments, *(f"{key}={text}" for key, text in texts.items())]


def run(cfg: Predict) -> None:
    """Answer the questions of `mate predict`, and print or write the answers.

    Raises:
        ConfigError: if required keys are missing, or keys that exclude each other are set.
    """
    cfg.hardware.require_one_process("mate predict")
    sources = [name for name, source in cfg.sources.items() if source and source.get("file") is not None]
    keys = [*sources, *(key for key in ("table", "question", "questions") if getattr(cfg, key) not in (None, []))]
    if cfg.input is not None:
        if keys:
            problem, hint = f"cannot be combined with {keys[0]}", "Ask about a dataset or about your own table"
            raise ConfigError(problem, where="input", remedy=hint)
        if cfg.abstain is not None:
            problem = "does not fit input=, where every question gets an answer"
            raise ConfigError(problem, where="abstain", remedy="Leave it out")
        predict_dataset(cfg)
    elif sources and (cfg.table or len(sources) > 1):
        raise ConfigError(f"cannot be combined with {keys[1]}", where=keys[0], remedy="Give one of them")
    elif keys and "" not in cfg.table:  # The path "" would be the working directory.
        predict_tables(cfg)
    else:
        hint = 'Write table=FILE question="...", database=FILE question="...", or input=FILE'
        raise ConfigError("needs a value", where="table", remedy=hint)


def predict_dataset(cfg: Predict) -> None:
    """Answer the questions of a dataset file with a finished run.

    The predictions are written in the official format, a list of {question_id, pred}.
    """
    from mate_cli.cli.config.validate import check_run_types
    from mate_cli.files.atomic import check_writable
    from mate_cli.pipelines.inference.predict_request import find_questions
    from mate_cli.runs.folders import open_run

    if cfg.run is None:
        problem = "needs a run, not a checkpoint" if cfg.checkpoint else "needs a run"
        raise ConfigError(problem, where="input", remedy="Set run=FOLDER, a folder of outputs/train/")
    open_run(cfg.run)
    find_questions(str(cfg.input))
    output = Path(cfg.output or "predictions.json").expanduser()
    check_writable(output, f"output={output}")

    # Import late: these modules load torch, which takes seconds.
    check_run_types(cfg.run, cfg.trust)
    from mate_cli.pipelines.evaluation.evaluate_run import predict_file
    from mate_cli.pipelines.machine import RuntimeOverrides
    from mate_cli.runs.configuration import explain_places

    runtime = RuntimeOverrides(cfg.hardware, cfg.paths, cfg.data, trust=cfg.trust)
    with explain_places(cfg.run):
        predict_file(cfg.run, str(cfg.input), output, runtime)


def predict_tables(cfg: Predict) -> None:
    """Answer questions about tables or a database of the user.

    The answers are printed, and written to `output` if it is set.
    """
    from mate_cli.pipelines.inference.predict_request import check_model
    from mate_cli.terminal.progress import Progress

    if cfg.output is not None:
        from mate_cli.reports.answers.files import check_output, write_answers

        check_output(cfg.output)
        input_files = [os.path.realpath(Path(file).expanduser()) for file in (*cfg.table, cfg.questions) if file]
        if os.path.realpath(Path(cfg.output).expanduser()) in input_files:
            raise ConfigError("is also an input file", where=f"output={cfg.output}", remedy="Choose another path")
    if cfg.question or cfg.questions:  # Without questions, read_inputs raises an error.
        check_model(cfg.run, cfg.checkpoint)
    with Progress("starting") as progress:
        ask = read_inputs(cfg, progress.begin)
        progress.begin("starting")
        session = ask()

    from mate_cli.reports.answers.terminal import MAX_PRINTED, print_session, summary_text
    from mate_cli.terminal.console import report_console

    console = report_console()
    if cfg.output is None or len(session.answers) <= MAX_PRINTED:
        print_session(session, console)
    else:
        console.print(summary_text(session), soft_wrap=True)
    if cfg.output is not None:
        console.print(f"answers: {write_answers(session, cfg.output)}", soft_wrap=True)


def read_inputs(cfg: Predict, say: Callable[[str], None]) -> Callable[[], Session]:
    """Read the tables or the database from the configuration, with the questions about them.

    The model is loaded later, so that errors in the input appear without delay.

    Args:
        cfg: configuration of the command.
        say: function that shows the name of the current task to the user.

    Returns:
        A function that loads the model and answers the questions.

    Raises:
        MateError: if a question or an input is missing or cannot be read.
    """
    for source in cfg.sources.values():
        if source and source.get("file") is not None:
            from hydra.utils import instantiate

            request = instantiate(source)
            return partial(
                load_and_answer, cfg, partial(request.answer, request.open(cfg.question, cfg.questions)), say
            )

    from mate_cli.pipelines.inference.predict_request import open_tables

    tables = open_tables(cfg.table, cfg.question, cfg.questions, cfg.output, read_options(cfg), say)
    answer = partial(answer_about_tables, tables, conversation=cfg.conversation, abstain=cfg.abstain)
    return partial(load_and_answer, cfg, answer, say)


def answer_about_tables(
    opened: OpenTables, load: Callable[[], LoadedModel], say: Callable[[str], None], **options: Any
) -> Session:
    """Answer all questions about opened tables with a model, by `answer_tables`.

    `answer_tables` is imported late, because its module imports torch.

    Args:
        opened: tables and questions.
        load: function that loads the model.
        say: function that shows the name of the current task to the user.
        **options: further arguments of `answer_tables`.
    """
    from mate_cli.pipelines.inference.tables import answer_tables

    return answer_tables(opened, load, say, **options)


def load_and_answer(cfg: Predict, answer: Answer, say: Callable[[str], None]) -> Session:
    """Load the configured run or checkpoint, and answer the questions.

    Args:
        cfg: configuration of the command.
        answer: function that answers all questions, see `Answer`.
        say: function that shows the name of the current task to the user.
    """
    from mate_cli.cli.config.validate import check_run_types

    if cfg.run is not None:
        check_run_types(cfg.run, cfg.trust)
    from mate_cli.pipelines.inference.tables import LoadedModel
    from mate_cli.pipelines.machine import RuntimeOverrides

    runtime = RuntimeOverrides(cfg.hardware, cfg.paths, trust=cfg.trust)
    return answer(partial(LoadedModel.load, cfg.run, cfg.checkpoint, runtime), say)


def read_options(cfg: Predict) -> ReadOptions:
    """Build the options for reading table files from the configuration.

    Raises:
        ConfigError: if encoding, header line, delimiter, quote character, locale or decimal separator is invalid.
    """
    from mate_cli.tables.read_options import Limits, ReadOptions, parse_header, parse_mark, read_decimal

    if cfg.text_encoding is not None:
        from mate_cli.tables.formats.encoding import known_encoding

    options = ReadOptions(
        sheet=None if cfg.sheet is None else str(cfg.sheet),
        hidden=cfg.hidden,
        encoding=None if cfg.text_encoding is None else known_encoding(cfg.text_encoding),
        locale=cfg.locale,
        decimal=cfg.decimal,
        header=None if cfg.header is None else parse_header(cfg.header),
        delimiter=None if cfg.delimiter is None else parse_mark("delimiter", cfg.delimiter),
        quote=None if cfg.quote is None else parse_mark("quote", cfg.quote),
        limits=Limits(**cfg.limits.model_dump()),
    )
    read_decimal(options)
    return options
