"""Loading with `from_pretrained` for a network of ours: weights, a device, a type, and an adapter of PEFT."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, cached_file, find_adapter_config_file, is_peft_available
from transformers.utils.hub import get_checkpoint_shard_files

from mate_cli.errors import CheckpointError, ConfigError

WEIGHTS = "model.safetensors"
DOWNLOADING = ("cache_dir", "force_download", "local_files_only", "proxies", "revision", "subfolder", "token")
WITHOUT_EFFECT = {
    *("trust_remote_code", "code_revision", "use_safetensors", "weights_only", "low_cpu_mem_usage", "disable_mmap"),
    *("offload_folder", "offload_buffers", "offload_state_dict", "tqdm_class", "mirror"),
}
"""Options of transformers that change nothing here: weights are safetensors, read at once, and never offloaded."""


class Adapter(NamedTuple):
    """An adapter of PEFT, and the network that it is for.

    Args:
        name: folder or name on the hub of the adapter; None without any.
        base: folder or name of the network.
        options: for `load_adapter`.
    """

    name: str | None
    base: str
    options: dict[str, Any]


def find_adapter(
    name: str, adapter_kwargs: Mapping[str, Any] | None, adapter_name: str | None, download: Mapping[str, Any]
) -> Adapter:
    """Find the adapter in a folder or on the hub, as transformers does.

    Args:
        name: folder or name on the hub, of a network or an adapter.
        adapter_kwargs: of the call, in which the `Auto` classes say that they have found one.
        adapter_name: what the network calls it.
        download: where files come from.

    Raises:
        CheckpointError: there is one, and peft is not installed.
    """
    settings = {key: value for key, value in (adapter_kwargs or {}).items() if value is not None}
    known = settings.pop("_adapter_model_path", None)
    options = {"adapter_name": adapter_name or "default", "adapter_kwargs": settings}
    config = None if known else find_adapter_config_file(name, **{**download, **settings})
    if not known and config is None:
        return Adapter(None, name, {})
    if not is_peft_available():
        problem, remedy = "it is a PEFT adapter, and peft is not installed", "Install peft, or merge the adapter"
        raise CheckpointError(problem, where=name, remedy=remedy)
    if config is None or (Path(name) / "config.json").is_file():
        return Adapter(known or name, name, options)
    return Adapter(name, json.loads(Path(config).read_text(encoding="utf-8"))["base_model_name_or_path"], options)


def read_weights(name: str, download: Mapping[str, Any]) -> dict[str, Tensor]:
    """Read all tensors of a network in a folder or on the hub, from one file or from its parts.

    Raises:
        CheckpointError: the files are damaged.
    """
    paths = _weight_files(name, download)
    with wrap_loading_errors(", ".join(paths)):
        return {name: tensor for path in paths for name, tensor in load_file(path).items()}


@contextmanager
def wrap_loading_errors(where: str) -> Iterator[None]:
    """Say of weights that they cannot be loaded, and why.

    Raises:
        CheckpointError: naming where they are.
    """
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or "nothing is in it").splitlines()[-1].strip()
        raise CheckpointError(f"the weights cannot be loaded: {reason}", where=where, remedy="Export again") from error


def _weight_files(name: str, download: Mapping[str, Any]) -> list[str]:
    index = None
    if cached_file(name, WEIGHTS, _raise_exceptions_for_missing_entries=False, **download) is None:
        index = cached_file(name, SAFE_WEIGHTS_INDEX_NAME, _raise_exceptions_for_missing_entries=False, **download)
    if index is None:
        return [str(cached_file(name, WEIGHTS, **download))]
    return list(get_checkpoint_shard_files(name, index, **download)[0])


def find_dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Find the type of weights; None for that of the file, which is also called "auto".

    Raises:
        ConfigError: it is no floating-point type.
    """
    if dtype is None or dtype == "auto":
        return None
    torch_dtype = getattr(torch, dtype.removeprefix("torch."), None) if isinstance(dtype, str) else dtype
    if isinstance(torch_dtype, torch.dtype) and torch_dtype.is_floating_point:
        return torch_dtype
    raise ConfigError(f"{dtype!r} is not a type of weights", where="dtype", remedy="Use float32, bfloat16 or float16")


def resolve_device(device_map: Any, max_memory: Mapping[Any, Any] | None = None) -> torch.device | None:  # noqa: ANN401
    """Find the device of a whole network; None for where it is.

    Args:
        device_map: a device, {"": device}, or "auto" for a GPU where there is one.
        max_memory: where "auto" may go, by device: 0, 1 and so on are GPUs.

    Raises:
        ValueError: the network is to be spread over several devices.
    """
    if device_map is None:
        return None
    if isinstance(device_map, Mapping):
        if len(set(device_map.values())) != 1:
            raise ValueError("a network cannot be split over devices. Use device_map={'': device}")
        device_map = next(iter(device_map.values()))
    if device_map in ("auto", "balanced", "balanced_low_0", "sequential"):
        gpus = [0] if max_memory is None else [key for key, size in max_memory.items() if key != "cpu" and size]
        device_map = gpus[0] if gpus and torch.cuda.is_available() else "cpu"
    return torch.device(device_map)
