"""The surroundings that a task is built from, beside its own options."""

from dataclasses import dataclass
from pathlib import Path

from mate_cli.models.base.table_encoder import TableEncoder
from mate_cli.tables.example import TableExample
from mate_cli.tokenization.serializers.serializer import SpanSerializer


class NoSerializer:
    """Stands where nothing reads words."""

    def span_text(self, example: TableExample, start: int, end: int) -> str:
        """Refuse: there is nothing to read with."""
        raise RuntimeError("TaskContext needs a serializer to read words")


NO_SERIALIZER = NoSerializer()


@dataclass(frozen=True)
class TaskContext:
    """The surroundings of a task.

    Args:
        encoder: the network below its head.
        serializer: encodes its examples, and says what text their tokens are of.
        cache_dir: a folder for what is worked out of examples; None: it is worked out each time.
    """

    encoder: TableEncoder
    serializer: SpanSerializer = NO_SERIALIZER
    cache_dir: Path | None = None
