"""Stage 3 of Hybrider: read the answer in one linked page."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.metrics.specs import Metric
from mate_cli.models.base.table_encoder import TaskContext
from mate_cli.models.layers.encoder import Dropout
from mate_cli.papers.hybrider.links import link_examples
from mate_cli.papers.hybrider.page_examples import page_example
from mate_cli.papers.hybrider.targets import find_target, reading_pairs
from mate_cli.tables.example import TableExample


class PageReading(SpanReading):
    """The reader of PointR on pages: each page that holds the answer is an example.

    Source: Chen et al. 2020, "HybridQA", section 4.2; wenhuchen/HybridQA, `train_stage3.py`.
    """

    def __init__(
        self,
        context: TaskContext,
        max_span_length: Annotated[int, Field(gt=0)] = 30,
        cells_per_question: Annotated[int, Field(gt=0)] | None = None,
        dropout: Dropout = 0.1,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, max_span_length, cells_per_question, dropout, metrics=metrics)
        self.links = context.cache_dir and context.cache_dir / "links"

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return every page with the answer of every question, up to `cells_per_question` each."""
        return [
            page_example(example, link, f"{example.example_id}/{place}")
            for example, links in self._pages(examples)
            for place, link in enumerate(links[: self.cells_per_question])
        ]

    def evaluation_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the first page with the answer, of every question that has one."""
        return [page_example(example, links[0]) for example, links in self._pages(examples)]

    def _pages(self, examples: Sequence[TableExample]) -> list[tuple[TableExample, list[str]]]:
        pages = []
        for example in link_examples(examples, self.links):
            pairs = reading_pairs(example, find_target(example, example.nodes))
            pages.append((example, [pair.link for pair in pairs]))
        return [(example, links) for example, links in pages if links]
