"""Only passages: take the linked page nearest to the question by its words, whatever the table says, and read it.

Source: the baseline of Chen et al. 2020, "HybridQA", section 5, whose retriever is not released.
"""

from collections.abc import Mapping, Sequence

from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.papers.hybrider.page_examples import nearest_page, page_example
from mate_cli.pipelines.systems.base import System, SystemAnswers, TrainedStage, first_hits
from mate_cli.tables.example import TableExample

READ = "reading"


class PassageOnly(System):
    """A retriever of pages by TF-IDF and a reader."""

    stages = (READ,)

    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Read the best span of the nearest page; a question about a table without pages gets no answer.

        Hits@1 says how often a cell that links the page holds the answer or links to it.
        """
        nearest = {example.example_id: nearest_page(example.table, example.question) for example in examples}
        links = {key: link for key, link in nearest.items() if link is not None}
        by_name = {example.example_id: example for example in examples}
        pages = {key: page_example(by_name[key], link) for key, link in links.items()}
        reader = stages[READ]
        answers = reader.task_of(SpanReading).answers
        texts = answers(reader.predict(list(pages.values()), name), pages) if pages else {}
        linking = {
            key: tuple((row, column) for row, column, cell in by_name[key].table.cells() if link in cell.links)
            for key, link in links.items()
        }
        return SystemAnswers(texts, first_hits(linking, by_name))
