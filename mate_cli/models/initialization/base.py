"""The interface of what gives a network its first weights."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from torch import nn

from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.models.checkpoints.settings import Origin
from mate_cli.tokenization.layout import TableBatch

EXTRA = "extra."
"""Prefix of all that is added."""
ADDED_LAYERS = f"{EXTRA}encoder.layer."
"""Prefix of the added layers; their number follows."""


@dataclass(frozen=True)
class LoadReport:
    """Names of the weights that were loaded, and of those that were not.

    Args:
        loaded: taken from the checkpoint, wholly or in part.
        new: not in the checkpoint.
        unused: in the checkpoint, without a place in the network.
        origins: where the weights came from.
        notes: settings that are otherwise than where the weights were trained, in words.
    """

    loaded: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    origins: tuple[Origin, ...] = ()
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Return one line for a log."""
        parts = [f"{len(self.loaded)} tensors loaded"]
        for word, names in (("new", self.new), ("unused", self.unused)):
            if names:
                parts.append(f"{len(names)} {word} ({', '.join(names[:3])}{', ...' * (len(names) > 3)})")
        return ", ".join(parts)


def combine_reports(reports: Iterable[LoadReport]) -> LoadReport:
    """Return one report of what several say of different weights; what is loaded in one is new in none."""
    reports = list(reports)
    loaded = dict.fromkeys(name for report in reports for name in report.loaded)
    return LoadReport(
        tuple(loaded),
        tuple(dict.fromkeys(name for report in reports for name in report.new if name not in loaded)),
        tuple(dict.fromkeys(name for report in reports for name in report.unused)),
        tuple({origin.source: origin for report in reports for origin in report.origins}.values()),
    )


class Initializer(ABC):
    """Gives a network its first weights: `load` before any data, `prepare` once the data is there."""

    tokenizer: str

    @abstractmethod
    def load(self, encoder: TableEncoder, task: nn.Module | None = None) -> LoadReport:
        """Fill a network with random weights in place, and with it the heads of its task that the weights have.

        Raises:
            ConfigError: the options are wrong.
            CheckpointError: the weights are missing, damaged or of another size.
        """

    def prepare(
        self,
        encoder: TableEncoder,
        batches: Iterable[TableBatch],
        report: LoadReport,
        agree: Callable[[Callable[[], list[float]]], list[float]] = lambda measure: measure(),
    ) -> Mapping[str, str]:
        """Change new weights in place by what the data is like: those of added layers, by their scheme.

        This runs once, when the data is there and before the first step: never in a run that is resumed, nor for a
        network that is only asked.

        Args:
            encoder: with the weights that `load` gave it.
            batches: of the whole training split, made when they are asked for.
            report: of `load`; what was loaded of added layers stays as it is.
            agree: measures in one process for all.

        Returns:
            What a record should say of it, in words.
        """
        extra, loaded = encoder.extra, set(report.loaded)
        begun = {name.removeprefix(ADDED_LAYERS).split(".")[0] for name in loaded if name.startswith(ADDED_LAYERS)}
        if extra is None or len(begun) == len(extra.encoder.layers):
            return {}
        weights = {name: weight.clone() for name, weight in extra.state_dict().items() if EXTRA + name in loaded}
        notes = extra.prepare(encoder, batches, agree)
        extra.load_state_dict(weights, strict=False)
        return notes
