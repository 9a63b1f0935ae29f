"""Hybrider: choose a node that the question is linked to, hop from it within its row, read where the hop ends.

Source: Chen et al. 2020, "HybridQA", section 4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mate_cli.data.baselines import tfidf_cell_ranking
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.papers.hybrider.node_ranking import NodeRanking
from mate_cli.papers.hybrider.nodes import Candidate
from mate_cli.papers.hybrider.page_examples import page_example
from mate_cli.papers.hybrider.row_hopping import RowHopping
from mate_cli.pipelines.systems.base import System, SystemAnswers, TrainedStage, first_hits
from mate_cli.tables.example import TableExample

RANK, HOP, READ = "ranking", "hopping", "reading"


class Hybrider(System):
    """A ranker of linked nodes, a hop within the row, and a reader of pages."""

    stages = (RANK, HOP, READ)

    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Answer with the text of the cell where the hop ends, or a span of the page.

        A question that is linked to nothing is answered with the cell nearest to it by TF-IDF. Hits@1 says how often
        the hop ends in a cell that holds the answer or links to it.
        """
        by_name = {example.example_id: example for example in examples}
        ends = _ends(stages, examples, name)
        texts = {key: end.content for key, end in ends.items()} | _read(stages[READ], ends, by_name)
        cells = {key: (end.coordinate,) for key, end in ends.items()}
        for key, example in by_name.items():
            if key not in cells:
                row, column = tfidf_cell_ranking(example.table, example.question)[0]
                cells[key], texts[key] = ((row, column),), example.table.rows[row][column].text
        return SystemAnswers(texts, first_hits(cells, by_name))


def _ends(stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> dict[str, Candidate]:
    """Find the cell where the hop of each question ends; questions that are linked to nothing are missing."""
    ranker = stages[RANK].task_of(NodeRanking)
    linked = {example.example_id: example for example in ranker.link(examples)}
    chosen = stages[RANK].predict(list(linked.values()), name)
    hops = {
        choice.example_id: replace(
            linked[choice.example_id], current=ranker.candidate(choice, linked[choice.example_id])
        )
        for choice in chosen
    }
    hop_choices = stages[HOP].predict(list(hops.values()), "hops")
    hopper = stages[HOP].task_of(RowHopping)
    return {choice.example_id: hopper.candidate(choice, hops[choice.example_id]) for choice in hop_choices}


def _read(reader: TrainedStage, ends: Mapping[str, Candidate], examples: Mapping[str, TableExample]) -> dict[str, str]:
    """Read the best span of each page, by question."""
    pages = {key: page_example(examples[key], end.link) for key, end in ends.items() if end.link is not None}
    return reader.task_of(SpanReading).answers(reader.predict(list(pages.values()), "pages"), pages) if pages else {}
