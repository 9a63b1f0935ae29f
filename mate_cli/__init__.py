"""MATE experiments on large tables, from the command line and in one's own code.

`train` trains, `Mate` is a trained network with its tokenizer, `Table` what it reads; each is loaded when it is used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["Mate", "Table", "__version__", "train"]

_PLACES = {
    "Mate": ("mate_cli.pipelines.inference.pretrained_encoder", "Mate"),
    "Table": ("mate_cli.tables.table", "Table"),
    "train": ("mate_cli.cli.commands.train", "train"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a class
    """Import a public class or function at its first use, because this may import torch."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, own_name = _PLACES[name]
    found = getattr(import_module(module), own_name)
    globals()[name] = found
    return found
