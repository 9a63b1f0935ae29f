"""Lightning without its own printing, logging and saving, which this program does itself."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def quiet() -> dict[str, Any]:
    """Options of `pl.Trainer`."""
    return {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
    }


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's advice on loaders and devices, which is settled here."""
    for name in ("pytorch_lightning", "lightning.pytorch"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="pytorch_lightning")
        warnings.filterwarnings("ignore", module="lightning_fabric")
        warnings.filterwarnings("ignore", "FSDP2-wrapped module")  # on in-place operations, of which there are none
        yield
