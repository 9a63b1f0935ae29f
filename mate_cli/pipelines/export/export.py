"""Export of a finished run to a folder for mate and transformers, and upload to the Hub."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils._validators import validate_repo_id
from hydra.utils import instantiate
from transformers import TapasConfig

from mate_cli.data.loading.table_data_module import EmptyDataset
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.atomic import replace_file
from mate_cli.files.io_errors import shorten_reason, wrap_file_errors
from mate_cli.files.safe_load import read_object, read_yaml, to_json, to_yaml
from mate_cli.files.targets import find_targets
from mate_cli.metrics.calibration import CALIBRATION
from mate_cli.models.auto_classes import CLASS_PREFIX, auto_name
from mate_cli.models.auto_encoder import MateConfig, MateModel
from mate_cli.pipelines.assembly import Parts, load_best
from mate_cli.pipelines.export.model_card import ExportedModel, model_card
from mate_cli.pipelines.export.tapas_format import shape_config, tapas_class, tapas_config, tapas_weights
from mate_cli.pipelines.inference.checkpoint import (
    FOUND_BESIDE,
    SETTINGS,
    TOKENIZER_FILES,
    WEIGHTS,
    check_built,
    tokenizer_class,
    write_tokenizer,
)
from mate_cli.pipelines.machine import RuntimeOverrides
from mate_cli.quoting import format_command, format_setting
from mate_cli.runs.checkpoints import write_tensors
from mate_cli.runs.configuration import ORIGIN, Node, RunConfig, read_settings
from mate_cli.runs.folders import open_run
from mate_cli.runs.identity import Names
from mate_cli.runs.record import RunFolder, RunRecord
from mate_cli.terminal.console import Console

OF_THE_MACHINE = {"hardware", "paths", "logger", "deterministic"}
"""Configuration sections that are not exported, because they belong to the machine."""
ANY_MACHINE = {"_target_": "mate_cli.attention.backends.auto.Auto"}
"""Replacement of an exact attention backend, which may need a GPU or a compiler."""
EXPORTED = {*TOKENIZER_FILES, WEIGHTS, SETTINGS, CALIBRATION, "config.json", "README.md"}
"""File names of all exports. Other files in an export folder belong to the user."""
LOG_IN = "Log in with hf auth login, or set HF_TOKEN, with a token that may write"
NEEDS_MATE = (
    "note: the table pipeline of transformers does not read tables as this network does; "
    "use mate_cli.Mate, as the README.md of the export shows"
)


def export_run(
    run: str,
    to: str,
    runtime: RuntimeOverrides,
    *,
    overwrite: bool = False,
    licence: str | None = None,
    hub: str | None = None,
) -> Path:
    """Export the best checkpoint of a run with its tokenizer, settings and a model card.

    Args:
        run: folder of a finished run.
        to: export folder to create.
        runtime: hardware and folders of the current machine.
        overwrite: whether to replace an existing export.
        licence: license of the weights, by its name on the Hugging Face Hub. None: license of the training data.
        hub: repository USER/NAME on the Hub that the model card mentions. None: no repository.

    Returns:
        Absolute path of the export folder.

    Raises:
        RunError: the run is not finished, or is a system of stages.
        ConfigError: the folder is not empty, unless it is an export and `overwrite` is true.
    """
    folder = open_run(run)
    record = folder.read_record()
    _check_finished(folder, record)
    target = Path(to).expanduser().absolute()
    _check_target(target, overwrite=overwrite)
    config = runtime.config(folder)
    if instantiate(config.attention).exact:
        config = config.model_copy(update={"attention": ANY_MACHINE})
    settings = exported_settings(config)
    check_built(settings, str(folder.path / "config.yaml"), runtime.trust)
    parts = load_best(config, folder, EmptyDataset())
    about, auto_class = parts.task.spec.table_answers, parts.task.spec.auto_class
    name = tapas_class(parts.task) or (f"{CLASS_PREFIX}{auto_class}" if auto_class else MateModel.__name__)
    card = ExportedModel(record, settings, first_init(folder, config), name, about, licence, hub)
    if card.needs_mate:
        Console(highlight=False).print(NEEDS_MATE, soft_wrap=True)
    with _write_folder(target) as partial:
        _write_network(partial, parts, settings, card.transformers_class)
        serializer = parts.serializer
        tokenizer = tokenizer_class(serializer, table_answers=about is not None)
        write_tokenizer(partial, serializer.tokenizer, serializer.max_tokens, tokenizer)
        text = to_yaml({**settings, ORIGIN: _describe_origin(folder, record)})
        note = "# What builds this model; mate predict checkpoint=<this folder> reads it.\n"
        (partial / SETTINGS).write_text(note + text, encoding="utf-8")
        if (folder.path / CALIBRATION).is_file():
            calibration = read_object(folder.path / CALIBRATION, RunError, "Evaluate the run again")
            (partial / CALIBRATION).write_text(to_json(calibration, indent=2), encoding="utf-8")
        (partial / "README.md").write_text(model_card(card, target.name), encoding="utf-8")
    _tell(target, to, _loaded_by(card.transformers_class, settings))
    return target


def _check_finished(folder: RunFolder, record: RunRecord) -> None:
    if record.status != "finished":
        hint = f"Finish it first: run its command again with {format_setting('resume', folder.path)}"
        raise RunError(f"this run is {record.status}", where=str(folder.path), remedy=hint)
    if record.stages:
        hint = f"Export {' or '.join(format_setting('run', folder.path / name) for name in record.stages)}"
        raise RunError("a system of stages has no single set of weights", where=str(folder.path), remedy=hint)


def _check_target(target: Path, *, overwrite: bool) -> None:
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not overwrite:
        raise ConfigError("already exists", where=f"to={target}", remedy="Choose a new folder, or add overwrite=true")
    if not (target / SETTINGS).is_file() or any((target / name).is_dir() for name in EXPORTED):
        problem = "is not an exported model, and is not replaced"
        raise ConfigError(problem, where=f"to={target}", remedy="Name another folder")


def exported_settings(config: RunConfig) -> dict[str, Any]:
    """Return a run's configuration for mate.yaml, without machine-specific settings.

    The tokenizer is read from the export folder itself.
    """
    settings = config.model_dump(exclude=OF_THE_MACHINE)
    settings["data"] = {"name": settings["data"].get("name")}
    if settings["encoding"].get("ranked_by"):  # The ranker is another run, which is not exported.
        settings["encoding"] |= {"best_rows": None, "ranked_by": None}
    settings["task"].pop("metrics", None)  # User-defined metrics may need modules that are not exported.
    settings["init"] = FOUND_BESIDE
    return settings


def _describe_origin(folder: RunFolder, record: RunRecord) -> dict[str, Any]:
    """Describe the run from which a model was exported, as needed by `init=run:FOLDER`.

    Returns:
        The config group options, the stage and the scale of the run.
    """
    stage = (read_yaml(folder.path / "config.yaml", RunError, "Export another run").get(ORIGIN) or {}).get("stage", "")
    scale = [override for override in record.overrides if override.startswith("scale=")]
    return {**asdict(Names.read(vars(record))), "stage": stage, "overrides": scale}


def first_init(folder: RunFolder, config: RunConfig) -> Node:
    """Return the `init` configuration of the first stage, which names the pre-trained weights."""
    stages = read_settings(folder.path).get("stages") or {}
    first = next((stage for stage in stages.values() if stage.get("after") != "rows"), None)
    if first is None:
        return config.init
    return dict(read_settings(Path(first["run"]))["init"]) if "run" in first else dict(first["init"])


def _write_network(folder: Path, parts: Parts, settings: dict[str, Any], name: str) -> None:
    """Write config.json and model.safetensors in the format of a transformers class."""
    task, serializer = parts.task, parts.serializer
    if tapas_class(task):
        weights = tapas_weights(task)
        TapasConfig(**tapas_config(task, serializer, settings)).save_pretrained(folder)
    else:
        weights = task.state_dict()
        config = MateConfig(
            **{part: settings[part] for part in ("model", "attention", "task", "encoding")},
            **shape_config(task, serializer),
            **task.auto_config,
            architectures=[name],
        )
        config.save_pretrained(folder)
    tensors = {name: tensor.detach().contiguous() for name, tensor in weights.items()}
    write_tensors(tensors, folder / WEIGHTS, {"format": "pt"})


@contextmanager
def _write_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, whose files replace files of `target` at the context's end.

    After an error, the target is unchanged. Files of an earlier export that are no longer written are removed. Files
    that do not belong to an export are kept.

    Raises:
        ConfigError: the disk is full, or the folder cannot be created.
    """
    errors = wrap_file_errors(f"to={target}", ConfigError, "cannot be written", "Choose another folder")
    with errors, replace_file(target) as draft:
        draft.mkdir()
        yield draft
        for name in EXPORTED - {file.name for file in draft.iterdir()}:
            (target / name).unlink(missing_ok=True)


def _loaded_by(name: str, settings: dict[str, Any]) -> str:
    """Describe in a sentence how to load an export, by transformers or by `mate_cli.Mate`."""
    modules = sorted({target.partition(".")[0] for target in find_targets(settings)} - {"mate_cli", "torch"})
    if modules:
        return f"needs these modules to load, with: mate_cli.Mate.from_pretrained(..., trust={modules}), or trust="
    loads = name if name.startswith("Tapas") else f"{auto_name(name)}, after: import mate_cli.models.auto_classes"
    return f"loads with transformers: {loads}"


def _tell(target: Path, folder: str, loads: str) -> None:
    console = Console(highlight=False)
    sizes = {file.name: file.stat().st_size / 1000 for file in sorted(target.iterdir()) if file.name in EXPORTED}
    console.print(f"{folder}: {len(sizes)} files, {sum(sizes.values()) / 1000:.1f} MB", soft_wrap=True)
    for file, size in sizes.items():
        console.print(f"  {file:<24}{size:>12,.1f} kB")
    console.print(loads, soft_wrap=True)


def check_push(name: str) -> None:
    """Check the name of a Hub repository and the user's access token, without any upload.

    Raises:
        ConfigError: the name is not USER/NAME, or no token is stored.
        RunError: the Hugging Face Hub is not reachable, or rejects the token.
    """
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise ConfigError(shorten_reason(error), where=f"push={name}", remedy="Type push=USER/NAME") from error
    if name.count("/") != 1:
        raise ConfigError("lacks the user name", where=f"push={name}", remedy=f"Type push=USER/{name}")
    if get_token() is None:
        raise ConfigError("no Hugging Face token found", where=f"push={name}", remedy=LOG_IN)
    with _explain_errors(name, LOG_IN):
        HfApi().whoami()


def push_folder(folder: Path, files: Iterable[str], name: str, *, private: bool) -> str:
    """Upload the selected files of a folder to a repository of the Hugging Face Hub.

    Args:
        folder: folder of the files.
        files: names of the files to upload.
        name: repository USER/NAME. It is created if it is missing.
        private: whether a new repository is private. The visibility of an existing repository is not changed.

    Returns:
        URL of the repository.

    Raises:
        RunError: the Hub is not reachable, or rejects the upload. The local folder is unchanged.
    """
    hint = f"The folder is written: type {format_command('hf', 'upload', name, str(folder))}"
    with _explain_errors(name, hint):
        api = HfApi()
        address = str(api.create_repo(name, private=private, exist_ok=True))
        api.upload_folder(repo_id=name, folder_path=folder, allow_patterns=[*files], commit_message="mate export")
    return address


@contextmanager
def _explain_errors(name: str, hint: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # Errors of huggingface_hub or its HTTP client, or a ValueError.
        problem = f"the Hugging Face Hub rejected it: {shorten_reason(error)}"
        raise RunError(problem, where=f"push={name}", remedy=hint) from error
