"""The configuration of a run as typed values: checked once, and what travels from there.

A part with a `_target_` stays a plain mapping until what it names is built from it. A relative path begins at the
working folder of training. The run's config.yaml says where that is, seen from the run's folder, and where it was; so
data and weights are found after the run or the folder of its project has moved.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from mate_cli.errors import ConfigError, DataError, RunError, known_cause
from mate_cli.files.io_errors import shorten_reason
from mate_cli.files.outside import stay_inside
from mate_cli.files.renamed import rename_targets
from mate_cli.files.safe_load import read_yaml
from mate_cli.files.targets import check_targets

Node = dict[str, Any]
"""A part with a `_target_`."""
Nodes = dict[str, Node | None]
"""Parts with a `_target_` by name; null for one that is left out."""
ORIGIN, BASE = "origin", "base"
"""Key of config.yaml under which stands where the values come from, and that of the working folder below it."""
ROOTS = ("root", "datasets")
"""Keys of folders of data, at which other paths of the same part begin."""
PLACED = ("data", "init", "encoding")
"""Parts of a configuration that name files and folders."""


class Section(BaseModel):
    """A part of the configuration: no unknown keys, no conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)  # a command uses few of all sections


class Trainer(Section):
    """`conf/trainer`: how long to train, how often to look, when to save."""

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
    """`conf/hardware`: the machine."""

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
        """Refuse several processes for what one does alone.

        Raises:
            ConfigError: naming the work.
        """
        if (count := self.devices * self.nodes) > 1:
            remedy = "Set hardware.devices=1 and hardware.nodes=1"
            raise ConfigError(f"{work} takes one process, not {count}", where="hardware.devices", remedy=remedy)


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= 128 or set("/\\#?%:") & set(name) or not name.isprintable():
        raise ValueError("a name of at most 128 characters without / \\ # ? % :")
    return name


WandbName = Annotated[str, AfterValidator(_checked_name)]
"""Characters that W&B takes for the name of a project."""


def _checked_text(text: str) -> str:
    if not 0 < len(text) <= 128:
        raise ValueError("a text of at most 128 characters")
    return text


WandbText = Annotated[str, AfterValidator(_checked_text)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
"""The generators are seeded by it and a place of 32 bits."""


Folder = Annotated[str, Field(min_length=1)]


class Paths(Section):
    """`conf/paths`: folders."""

    outputs: Folder
    cache: Folder
    data: Folder

    @model_validator(mode="before")
    @classmethod
    def _without_shared(cls, values: Any) -> Any:  # noqa: ANN401 - whatever is given
        """Leave out a folder that runs of earlier versions name, and nobody reads."""
        return {key: value for key, value in values.items() if key != "shared"} if isinstance(values, dict) else values


class ModelConfig(Section):
    """The parts of a network and its task, and the machine that they are on."""

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
        """The tokenizer of the first weights.

        Raises:
            ConfigError: `init` does not say.
        """
        if "tokenizer" not in self.init:
            raise ConfigError("needs a value", where="init.tokenizer", remedy="Name the tokenizer of the weights")
        return str(self.init["tokenizer"])

    @property
    def limits(self) -> tuple[int | None, int | None, int | None]:
        """Limits of the training split, of the test split, and of every other, in examples; None for all."""
        return None, None, None


@dataclass(frozen=True)
class Base:
    """The folder that relative paths of a run begin at.

    Args:
        folder: where it is now.
        before: where it was when the run was trained.
    """

    folder: Path
    before: Path

    def place(self, value: Any, key: str = "") -> Any:  # noqa: ANN401 - any value
        """Return a value of the configuration, and a path in it as what it means here and now."""
        if isinstance(value, Mapping):
            return {name: self.place(part, str(name)) for name, part in value.items()}
        if isinstance(value, list):
            return [self.place(part) for part in value]
        if not isinstance(value, str) or not (os.sep in value or key in ROOTS) or value.startswith("~"):
            return value
        place, absolute = self._find(value), Path(value).is_absolute()
        is_here = _exists(value) if absolute else self.folder == Path.cwd()
        return str(place) if not is_here and (_exists(place) or (key in ROOTS and not absolute)) else value

    def count(self, data: Mapping[str, Any]) -> int:
        """Count the files and folders of data that are there."""
        texts = {key: value for key, value in data.items() if isinstance(value, str)}
        roots = [self._find(texts[key]) for key in ROOTS if key in texts]
        return sum(map(_exists, (*roots, *(root / text for root in roots for text in texts.values()))))

    def _find(self, value: str) -> Path:
        return _join(self.folder, os.path.relpath(value, self.before) if Path(value).is_absolute() else value)


class RunConfig(ModelConfig):
    """The configuration of one training run: everything that `config.yaml` of its folder says."""

    data: Node
    optimizer: Node
    scheduler: Node
    trainer: Trainer
    callbacks: Nodes = {}
    logger: Nodes = {}
    deterministic: bool

    @property
    def limits(self) -> tuple[int | None, int | None, int | None]:
        """Limits of the training split, of the test split, and of every other, in examples; None for all."""
        return self.trainer.limit_train, self.trainer.limit_test, self.trainer.limit_dev

    def placed(self, base: Base) -> RunConfig:
        """Return the same with its paths as they are here and now."""
        return self.model_copy(update={part: base.place(getattr(self, part)) for part in PLACED})

    def on_machine(self, hardware: Hardware, paths: Paths) -> RunConfig:
        """Return the same on the hardware and in the folders of now; all that numbers depend on stays as trained."""
        keys = ("accelerator", "workers", "prepare_workers", "threads", "micro_batch")
        now = {key: getattr(hardware, key) for key in keys}
        return self.model_copy(update={"hardware": self.hardware.model_copy(update=now), "paths": paths})


def read_settings(folder: Path) -> dict[str, Any]:
    """Read config.yaml of a run as plain values to compare with; nothing may be built from them.

    Raises:
        RunError: it is missing or damaged.
    """
    values = rename_targets(read_yaml(folder / "config.yaml", RunError, "Give a folder below outputs/"))
    stages = values.get("stages")
    for part in (values, *(stages.values() if isinstance(stages, dict) else ())):
        if isinstance(part, dict):
            part.pop(ORIGIN, None)
    return values


def read_parts(folder: Path, trust: Sequence[str] = ()) -> dict[str, Any]:
    """Read config.yaml of a run, which may come from anyone, as values that may be built; `trust` names modules.

    Raises:
        RunError: it is missing or damaged.
        TrustError: it names something else to build.
    """
    values = read_settings(folder)
    check_targets(values, str(folder / "config.yaml"), trust)
    return values


def build_part(node: Node, defaults: Mapping[str, Any], where: str) -> Any:  # noqa: ANN401 - whatever the node names
    """Build what a node names; what it leaves open or null is given by name where the class takes it.

    Raises:
        ConfigError: the class refuses its settings.
    """
    from hydra.utils import get_object, instantiate

    takes = inspect.signature(get_object(node["_target_"])).parameters
    filled = {name: value for name, value in defaults.items() if name in takes and node.get(name) is None}
    left = {name: value for name, value in node.items() if name not in filled}
    try:
        return instantiate({**left, "_partial_": True}, _convert_="all")(**filled)
    except Exception as error:
        if (known := known_cause(error)) is not None:
            raise known from error
        raise ConfigError(f"{node['_target_']} cannot be built: {shorten_reason(error)}", where=where) from error


def load_config(folder: Path, trust: Sequence[str] = ()) -> RunConfig:
    """Read what a run was trained with from its config.yaml, its paths as they are here and now; see `read_parts`.

    Raises:
        RunError: the file is missing, damaged, or not of one run.
        TrustError: it names something to build that is neither ours nor trusted.
    """
    values, file = read_parts(folder, trust), str(folder / "config.yaml")
    values |= stay_inside({"data": values.get("data")}, folder, trust, file)  # of the others only data are used again
    try:
        config = RunConfig.model_validate({key: values[key] for key in RunConfig.model_fields if key in values})
        return config.placed(read_base(folder))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise RunError(
            f"does not fit this version of mate: {place}",
            where=file,
            remedy="Train the run again",
        ) from error


def describe_base(folder: Path) -> dict[str, str]:
    """Return where the working folder is, by itself and seen from the folder of a run; see `find_base`."""
    here = Path.cwd()
    return {"at": str(here), "from_run": os.path.relpath(here, folder)}


def find_base(values: Mapping[str, Any], folder: Path) -> Base:
    """Find the folder that paths of a run begin at: where most of its data are.

    Of equals it is the one that lies as it did to the run's folder, then the one that it was, then the working folder.

    Args:
        values: what the run's config.yaml holds.
        folder: of the run.
    """
    here, origin = Path.cwd(), values.get(ORIGIN)
    described = origin.get(BASE) if isinstance(origin, dict) else None
    if not isinstance(described, dict):
        return Base(here, here)
    before = Path(str(described.get("at", here)))
    tried = [Base(place, before) for place in (_join(folder, str(described.get("from_run", ""))), before, here)]
    stages = values.get("stages")
    parts = [values, *(stages.values() if isinstance(stages, dict) else ())]
    data = [part["data"] for part in parts if isinstance(part, dict) and isinstance(part.get("data"), dict)]
    tried = [base for base in tried if _exists(base.folder) and base.folder.is_dir()]
    return max(tried, key=lambda base: sum(map(base.count, data)))


def read_base(folder: Path) -> Base:
    """Find the folder that paths of a run begin at by its config.yaml.

    Raises:
        RunError: it is missing or damaged.
    """
    return find_base(read_yaml(folder / "config.yaml", RunError, "Give a folder below outputs/"), folder)


@contextmanager
def explain_places(run: str | Path) -> Iterator[None]:
    """Say of a run's data that are not there where its paths begin, and which key gives another place.

    Raises:
        DataError: what was wrong with the data.
    """
    try:
        yield
    except DataError as error:
        if not error.where or Path(error.where).exists():
            raise
        told = f"Paths of this run begin at {read_base(Path(run)).folder}, and data.root=FOLDER is another place."
        raise DataError(error.problem, where=error.where, remedy=f"{told} {error.remedy or ''}".strip()) from error


def _exists(path: str | Path) -> bool:
    """Return whether a path exists, also if it is too long or below a closed folder: then `Path.exists` fails."""
    return os.path.exists(path)  # noqa: PTH110


def _join(folder: Path, value: str) -> Path:
    return Path(os.path.normpath(folder.absolute() / value))
