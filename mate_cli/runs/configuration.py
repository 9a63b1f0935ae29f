"""The validated configuration of a run, as classes of pydantic.

A mapping with a `_target_` stays a mapping until Hydra instantiates the object. Relative paths are relative to the
working directory of training. config.yaml stores this directory as an absolute path and relative to the run folder,
so that data and weights are found after the run or its project has moved.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    ValidationError,
    model_validator,
)

from mate_cli.errors import ConfigError, DataError, MateError, RunError, known_cause
from mate_cli.files.io_errors import shorten_reason
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml
from mate_cli.files.sandbox import remove_paths
from mate_cli.files.targets import check_targets

if TYPE_CHECKING:
    from typing import Self

Node = dict[str, Any]
"""A mapping of the configuration with a `_target_`, from which Hydra instantiates an object."""
Nodes = dict[str, Node | None]
"""Mappings with a `_target_`, by name, such as all callbacks. None for a disabled entry."""
ORIGIN, BASE = "origin", "base"
"""Key of config.yaml that describes how its values were composed, and the key below it of the working directory."""
ROOTS = ("root", "datasets")
"""Keys of data folders, to which other paths of the same section are relative."""
PLACED = ("data", "init", "encoding")
"""Sections of a configuration that contain paths."""


PositiveInt = Annotated[int, Field(gt=0, le=2**53)]
"""A positive integer of at most 2^53. 64-bit counters and floats can represent it, also after rounding up."""


class Section(BaseModel):
    """Base class of configuration sections, which pydantic validates strictly.

    Unknown keys are rejected, and no value is converted to another type.
    """

    # Validators are built on first use, because a command uses few of the sections.
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class Trainer(Section):
    """Settings in `conf/trainer`, such as the length of training.

    The intervals of validation, checkpoints and log rows are set here too.
    """

    batch_size: PositiveInt
    max_epochs: PositiveFloat | None
    max_steps: PositiveInt | None
    val_every: PositiveFloat
    gradient_clip: PositiveFloat | None
    checkpoint_every: PositiveInt
    log_every: PositiveInt
    limit_train: PositiveInt | None
    limit_dev: PositiveInt | None
    limit_test: PositiveInt | None
    compile: bool = False
    options: dict[str, Any] = {}


class Hardware(Section):
    """Settings in `conf/hardware`: devices, precision, micro-batch size and CPU workers."""

    accelerator: Literal["cpu", "gpu", "mps", "auto"]
    devices: PositiveInt = 1
    nodes: PositiveInt = 1
    precision: Literal["32-true", "16-mixed", "bf16-mixed", "auto"]
    tf32: bool = False
    micro_batch: PositiveInt
    workers: NonNegativeInt | None
    prepare_workers: PositiveInt | None = None
    threads: PositiveInt | None

    def require_one_process(self, work: str) -> None:
        """Check that a single process is configured, for work that cannot be distributed.

        Args:
            work: description of the work for the error message.

        Raises:
            ConfigError: several devices or nodes are configured.
        """
        if (count := self.devices * self.nodes) > 1:
            hint = "Set hardware.devices=1 and hardware.nodes=1"
            raise ConfigError(f"{work} takes one process, not {count}", where="hardware.devices", remedy=hint)


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= 128 or set("/\\#?%:") & set(name) or not name.isprintable():
        raise ValueError("a name of at most 128 characters without / \\ # ? % :")
    return name


WandbName = Annotated[str, AfterValidator(_checked_name)]
"""A name that W&B accepts for a project or a team."""


def _checked_text(text: str) -> str:
    if not 0 < len(text) <= 128:
        raise ValueError("a text of at most 128 characters")
    return text


WandbText = Annotated[str, AfterValidator(_checked_text)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""A random seed from 0 to 2^32 - 1."""


Folder = Annotated[str, Field(min_length=1)]


class Paths(Section):
    """Settings in `conf/paths`: folders of outputs, caches and data."""

    outputs: Folder
    cache: Folder
    data: Folder

    @model_validator(mode="before")
    @classmethod
    def _without_shared(cls, values: Any) -> Any:  # noqa: ANN401 - whatever is given
        """Accept config.yaml files of earlier versions, by removing the unused key `shared`."""
        return {key: value for key, value in values.items() if key != "shared"} if isinstance(values, dict) else values


class ModelConfig(Section):
    """The configuration of a network, its task and the machine, without data and training."""

    encoding: Node
    init: Node
    model: Node
    attention: Node
    task: Node
    hardware: Hardware
    paths: Paths
    seed: Seed

    @property
    def tokenizer(self) -> str:
        """Name or path of the tokenizer that belongs to the initial weights (`init.tokenizer`).

        Raises:
            ConfigError: `init.tokenizer` is missing.
        """
        if "tokenizer" not in self.init:
            raise ConfigError("needs a value", where="init.tokenizer", remedy="Name the tokenizer of the weights")
        return str(self.init["tokenizer"])

    @property
    def limits(self) -> tuple[int | None, int | None, int | None]:
        """Maximum numbers of examples to use of the train split, of test and of each other split.

        None means all examples.
        """
        return None, None, None

    @classmethod
    def from_sections(cls, values: Mapping[str, Any], path: Path, error_class: type[MateError], hint: str) -> Self:
        """Create the configuration from the sections of a file, ignoring other sections.

        Args:
            values: content of the file, which may have further sections.
            path: path of the file, for the error message.
            error_class: class of the error.
            hint: remedy in the error message.

        Raises:
            MateError: an error of class `error_class`: a section is missing or invalid.
        """
        try:
            return cls.model_validate({key: values[key] for key in cls.model_fields if key in values})
        except ValidationError as error:
            location = ".".join(map(str, error.errors()[0]["loc"]))
            raise error_class(f"does not fit this version of mate: {location}", where=str(path), remedy=hint) from error


@dataclass(frozen=True)
class Base:
    """The folder to which the relative paths in the configuration of a run refer.

    Args:
        folder: current path of this folder.
        before: path of this folder when the run was trained.
    """

    folder: Path
    before: Path

    def place(self, value: Any, key: str = "") -> Any:  # noqa: ANN401 - any value
        """Resolve the relative paths in a configuration value against this base folder.

        A path is unchanged if it exists as it is, or if it does not exist in the base folder. Relative data folders
        (`ROOTS`) are resolved in either case.

        Args:
            value: value, mapping or list.
            key: key of the value. Values of data folder keys (`ROOTS`) are paths even without a separator.
        """
        if isinstance(value, Mapping):
            return {name: self.place(part, str(name)) for name, part in value.items()}
        if isinstance(value, list):
            return [self.place(part) for part in value]
        if not isinstance(value, str) or not (os.sep in value or key in ROOTS) or value.startswith("~"):
            return value
        path, absolute = self._find(value), Path(value).is_absolute()
        is_here = _exists(value) if absolute else self.folder == Path.cwd()
        return str(path) if not is_here and (_exists(path) or (key in ROOTS and not absolute)) else value

    def count(self, data: Mapping[str, Any]) -> int:
        """Count how many of a configuration's data paths exist relative to this base folder."""
        texts = {key: value for key, value in data.items() if isinstance(value, str)}
        roots = [self._find(texts[key]) for key in ROOTS if key in texts]
        return sum(map(_exists, (*roots, *(root / text for root in roots for text in texts.values()))))

    def _find(self, value: str) -> Path:
        return _join(self.folder, os.path.relpath(value, self.before) if Path(value).is_absolute() else value)


def _checked_target(node: Node) -> Node:
    if "_target_" not in node:
        raise ValueError("a mapping with the name of a class as _target_")
    return node


Recipe = Annotated[Node, AfterValidator(_checked_target)]
"""A mapping with a `_target_` whose arguments are not checked before it is instantiated."""


class RunConfig(ModelConfig):
    """The configuration of one training run: the content of its `config.yaml`."""

    data: Node
    optimizer: Recipe
    scheduler: Recipe
    trainer: Trainer
    callbacks: Nodes = {}
    logger: Nodes = {}
    deterministic: bool

    @property
    def limits(self) -> tuple[int | None, int | None, int | None]:
        """Maximum numbers of examples to use of the train split, of test and of each other split.

        None means all examples.
        """
        return self.trainer.limit_train, self.trainer.limit_test, self.trainer.limit_dev

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> RunConfig:
        """Create the configuration from the content of a config.yaml, ignoring other keys.

        Raises:
            KeyError: a section without a default is missing.
            ValidationError: a value is invalid.
        """
        return cls.model_validate({key: values[key] for key in cls.model_fields})

    def placed(self, base: Base) -> RunConfig:
        """Return a copy in which relative paths are resolved against a base folder."""
        return self.model_copy(update={part: base.place(getattr(self, part)) for part in PLACED})

    def on_machine(self, hardware: Hardware, paths: Paths) -> RunConfig:
        """Return a copy of the configuration with the hardware and folders of the current machine.

        Hardware settings that affect results, such as the precision, stay as in training.

        Args:
            hardware: current hardware, which supplies the accelerator, workers, threads and micro-batch size.
            paths: current folders of outputs, caches and data.
        """
        keys = ("accelerator", "workers", "prepare_workers", "threads", "micro_batch")
        values = {key: getattr(hardware, key) for key in keys}
        return self.model_copy(update={"hardware": self.hardware.model_copy(update=values), "paths": paths})


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the config.yaml of a run for comparison, without the section `origin`.

    The values are not validated, so no `_target_` in them may be instantiated.

    Raises:
        RunError: config.yaml is missing or damaged.
    """
    values = rename_targets(read_yaml(folder / "config.yaml", RunError, "Give a folder below outputs/"))
    stages = values.get("stages")
    for part in (values, *(stages.values() if isinstance(stages, dict) else ())):
        if isinstance(part, dict):
            part.pop(ORIGIN, None)
    return values


def read_parts(folder: Path, trust: Sequence[str] = ()) -> dict[str, Any]:
    """Read the untrusted config.yaml of a run, and check that its `_target_`s are trusted.

    Args:
        folder: run folder.
        trust: modules that may be instantiated in addition to mate's.

    Raises:
        RunError: config.yaml is missing or damaged.
        TrustError: config.yaml has a target that is neither mate's nor trusted.
    """
    values = read_settings(folder)
    check_targets(values, str(folder / "config.yaml"), trust)
    return values


def build_part(node: Node, defaults: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - whatever the node names
    """Instantiate the class, or call the function, that is the `_target_` of a mapping.

    Args:
        node: mapping with a `_target_`.
        defaults: arguments by name. An argument is passed if the target accepts it and the node omits it or sets it to
            null.
        where: configuration key of the node, for error messages.

    Raises:
        ConfigError: the target cannot be instantiated with these arguments.
    """
    from hydra.utils import get_object, instantiate

    parameters = inspect.signature(get_object(node["_target_"])).parameters
    filled = {name: value for name, value in defaults.items() if name in parameters and node.get(name) is None}
    arguments = {name: value for name, value in node.items() if name not in filled}
    try:
        return instantiate({**arguments, "_partial_": True}, _convert_="all")(**filled)
    except Exception as error:
        if (cause := known_cause(error)) is not None:
            raise cause from error
        raise ConfigError(f"{node['_target_']} cannot be built: {shorten_reason(error)}", where=where) from error


def load_config(folder: Path, trust: Sequence[str] = ()) -> RunConfig:
    """Read the configuration of a trained run, with paths resolved to current locations.

    Args:
        folder: run folder.
        trust: trusted modules, see `read_parts`.

    Raises:
        RunError: config.yaml is missing, damaged, or not of a single run.
        TrustError: config.yaml has a target that is neither mate's nor trusted.
    """
    values = read_parts(folder, trust)
    # Only the paths of `data` are used again. Nothing is downloaded.
    values |= remove_paths({"data": values.get("data")}, folder)[0]
    config = RunConfig.from_sections(values, folder / "config.yaml", RunError, "Train the run again")
    return config.placed(read_base(folder))


def describe_base(folder: Path) -> dict[str, str]:
    """Return the current working directory as it is recorded in the config.yaml of a run.

    The path is recorded as absolute path and relative to the run folder. `find_base` reads these values to find the
    data of a run that was moved.
    """
    cwd = Path.cwd()
    return {"at": str(cwd), "from_run": os.path.relpath(cwd, folder)}


def find_base(values: Mapping[str, Any], folder: Path) -> Base:
    """Find the folder to which the relative paths of a run refer, even if the run was moved.

    The candidates are the folder at the same path relative to the run folder, the original absolute path, and the
    working directory. The candidate with most of the data files of the run is returned. On a tie it is the first.

    Args:
        values: content of config.yaml of the run.
        folder: run folder.
    """
    cwd, origin = Path.cwd(), values.get(ORIGIN)
    saved = origin.get(BASE) if isinstance(origin, dict) else None
    if not isinstance(saved, dict):
        return Base(cwd, cwd)
    original = Path(str(saved.get("at", cwd)))
    bases = [Base(path, original) for path in (_join(folder, str(saved.get("from_run", ""))), original, cwd)]
    stages = values.get("stages")
    parts = [values, *(stages.values() if isinstance(stages, dict) else ())]
    data = [part["data"] for part in parts if isinstance(part, dict) and isinstance(part.get("data"), dict)]
    bases = [base for base in bases if _exists(base.folder) and base.folder.is_dir()]
    return max(bases, key=lambda base: sum(map(base.count, data)))


def read_base(folder: Path) -> Base:
    """Find the folder to which the relative paths in a run's config.yaml refer.

    Raises:
        RunError: config.yaml is missing or damaged.
    """
    return find_base(read_yaml(folder / "config.yaml", RunError, "Give a folder below outputs/"), folder)


@contextmanager
def explain_places(run: str | Path) -> Iterator[None]:
    """Explain relative paths in each `DataError` about a missing file, inside the context.

    The added hint names the base folder of the paths of `run`, and the key `data.root`, which changes the folder.

    Raises:
        DataError: the original error, with the hint.
    """
    try:
        yield
    except DataError as error:
        if not error.where or Path(error.where).exists():
            raise
        hint = f"Relative paths start at {read_base(Path(run)).folder}. Set another folder by data.root=FOLDER."
        raise DataError(error.problem, where=error.where, remedy=f"{hint} {error.remedy or ''}".strip()) from error


def _exists(path: str | Path) -> bool:
    """Return whether a path exists.

    `Path.exists` raises if it is too long or its folder is not accessible.
    """
    return os.path.exists(path)  # noqa: PTH110


def _join(folder: Path, value: str) -> Path:
    return Path(os.path.normpath(folder.absolute() / value))
