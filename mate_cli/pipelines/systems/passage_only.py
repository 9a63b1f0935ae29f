"""Only passages: take the linked page nearest to the question by its words, whatever the table says, and read it.

Source: the baseline of Chen et al. 2020, "HybridQA", section 5, whose retriever is not released.
"""

from collections.abc import Mapping, Sequence

from mate_cli.data.page_reading import nearest_page, page_example
from mate_cli.lit_modules.base import by_source
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.metrics.hits_at_k import hits_at_k
from mate_cli.pipelines.systems.base import System, SystemAnswers, Trained
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table

READ = "reading"


class PassageOnly(System):
    """A retriever of pages by TF-IDF and a reader."""

    stages = (READ,)

    def answer(self, stages: Mapping[str, Trained], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Read the best span of the nearest page; a question about a table without pages gets no answer.

        Hits@1 says how often a cell that links the page holds the answer or links to it.
        """
        found = {example.example_id: nearest_page(example.table, example.question) for example in examples}
        links = {key: link for key, link in found.items() if link is not None}
        by_name = {example.example_id: example for example in examples}
        pages = {key: page_example(by_name[key], link) for key, link in links.items()}
        reader = stages[READ]
        answers = reader.task_of(SpanReading).answers
        texts = answers(reader.predict(list(pages.values()), name), pages) if pages else {}
        return SystemAnswers(texts, _hits(links, by_name))


def _hits(links: Mapping[str, str], examples: Mapping[str, TableExample]) -> dict[str, float]:
    known = {key: example.answer.coordinates for key, example in examples.items() if example.answer}
    cells = {key: _first_cell(examples[key].table, links[key]) for key in known if key in links}
    return hits_at_k({key: cells.get(key, []) for key in known}, known, by_source(examples), ks=(1,)) if known else {}


def _first_cell(table: Table, link: str) -> list[tuple[int, int]]:
    return [(row, column) for row, column, cell in table.cells() if link in cell.links][:1]
