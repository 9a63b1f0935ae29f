"""Hybrider: rank linked nodes, hop within the row of the best node, read the final page.

Also contains the passage-only baseline, which reads the page most similar to the question and ignores the table.
Source: Chen et al. 2020, "HybridQA", sections 4 and 5. The retriever of the baseline is not released.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mate_cli.data.baselines import tfidf_cell_ranking
from mate_cli.lit_modules.span_reading import SpanReading
from mate_cli.papers.hybrider.linking import OverlapDistance
from mate_cli.papers.hybrider.nodes import Candidate, page_sentences
from mate_cli.papers.hybrider.targets import page_example
from mate_cli.papers.hybrider.tasks import NodeRanking, RowHopping
from mate_cli.pipelines.systems.base import System, SystemAnswers, TrainedStage, first_hits
from mate_cli.tables.example import TableExample
from mate_cli.tables.table import Table
from mate_cli.tokenization.expansion import SentenceIndex

RANK, HOP, READ = "ranking", "hopping", "reading"


class Hybrider(System):
    """System of three trained stages: rank the linked nodes, hop within the row of the best node, read a page."""

    stages = (RANK, HOP, READ)

    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Answer each question with the text of the final cell, or with a span of the final page.

        A question without linked nodes is answered with the cell most similar to the question by TF-IDF. Hits@1 is the
        share of questions whose final cell contains the answer or links to it.

        Args:
            stages: trained stages by name.
            examples: questions of one split.
            name: label of the progress bar.
        """
        by_name = {example.example_id: example for example in examples}
        final_candidates = _find_final_candidates(stages, examples, name)
        pages = {
            key: page_example(by_name[key], candidate.link)
            for key, candidate in final_candidates.items()
            if candidate.link is not None
        }
        texts = {key: candidate.content for key, candidate in final_candidates.items()}
        texts |= _read_pages(stages[READ], pages, "pages")
        cells = {key: (candidate.coordinate,) for key, candidate in final_candidates.items()}
        for key, example in by_name.items():
            if key not in cells:
                row, column = tfidf_cell_ranking(example.table, example.question)[0]
                cells[key], texts[key] = ((row, column),), example.table.rows[row][column].text
        return SystemAnswers(texts, first_hits(cells, by_name))


def _find_final_candidates(
    stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str
) -> dict[str, Candidate]:
    """Predict the cell or page with the answer by stages 1 and 2, for each question with linked nodes.

    Args:
        stages: trained stages by name.
        examples: questions of one split.
        name: label of the progress bar.

    Returns:
        The selected cell or page by question id.
    """
    ranker = stages[RANK].task_of(NodeRanking)
    linked_examples = {example.example_id: example for example in ranker.link(examples)}
    node_choices = stages[RANK].predict(list(linked_examples.values()), name)
    hops = {}
    for choice in node_choices:
        example = linked_examples[choice.example_id]
        hops[choice.example_id] = replace(example, current=ranker.candidate(choice, example))
    hop_choices = stages[HOP].predict(list(hops.values()), "hops")
    hopper = stages[HOP].task_of(RowHopping)
    return {choice.example_id: hopper.candidate(choice, hops[choice.example_id]) for choice in hop_choices}


def _read_pages(reader: TrainedStage, pages: Mapping[str, TableExample], name: str) -> dict[str, str]:
    """Predict the answer span in a page by stage 3, for each question.

    Args:
        reader: trained reader.
        pages: page to read by question id.
        name: label of the progress bar.

    Returns:
        The text of the best span by question id.
    """
    return reader.task_of(SpanReading).answers(reader.predict(list(pages.values()), name), pages) if pages else {}


def nearest_page(table: Table, question: str) -> str | None:
    """Return the linked page with the sentence most similar to a question.

    Return None if no page has a sentence. Sentences are compared by TF-IDF of words and bigrams. If no sentence shares
    a word with the question, sentences are compared by the longest common substring. The first of several equally
    similar sentences is used.
    """
    pages = [(link, sentence) for link, text in table.passages.items() for sentence in page_sentences(text)]
    sentences = [sentence for _, sentence in pages]
    scores = SentenceIndex(sentences).scores(question)
    if not scores.any():
        scores = 1 - OverlapDistance(sentences).to(question)
    return pages[int(scores.argmax())][0] if pages else None


class PassageOnly(System):
    """Baseline system that ignores the table: a TF-IDF retriever selects a linked page, and a reader answers."""

    stages = (READ,)

    def answer(self, stages: Mapping[str, TrainedStage], examples: Sequence[TableExample], name: str) -> SystemAnswers:
        """Answer each question with the best span of the linked page most similar to the question.

        A question about a table without pages gets no answer. Hits@1 is the share of questions for which a cell that
        links to the page contains the answer or links to it.

        Args:
            stages: trained stages by name.
            examples: questions of one split.
            name: label of the progress bar.
        """
        nearest_pages = {example.example_id: nearest_page(example.table, example.question) for example in examples}
        links = {key: link for key, link in nearest_pages.items() if link is not None}
        by_name = {example.example_id: example for example in examples}
        pages = {key: page_example(by_name[key], link) for key, link in links.items()}
        linking = {
            key: tuple((row, column) for row, column, cell in by_name[key].table.cells() if link in cell.links)
            for key, link in links.items()
        }
        return SystemAnswers(_read_pages(stages[READ], pages, name), first_hits(linking, by_name))
