"""Examples for readers: a linked page as a table of one cell."""

from mate_cli.papers.hybrider.distances import OverlapDistance
from mate_cli.papers.hybrider.nodes import page_sentences
from mate_cli.papers.hybrider.targets import page_context
from mate_cli.tables.example import Answer, TableExample
from mate_cli.tables.table import Cell, Table
from mate_cli.tokenization.expansion import SentenceIndex


def nearest_page(table: Table, question: str) -> str | None:
    """Return the linked page with the sentence nearest to a question; None where no page has a sentence.

    Sentences are compared by TF-IDF of words and pairs of words; where none shares a word with the question, by
    their longest common substring. The first of equally near ones counts.
    """
    pages = [(link, sentence) for link, text in table.passages.items() for sentence in page_sentences(text)]
    sentences = [sentence for _, sentence in pages]
    scores = SentenceIndex(sentences).scores(question)
    if not scores.any():
        scores = 1 - OverlapDistance(sentences).to(question)
    return pages[int(scores.argmax())][0] if pages else None


def page_example(example: TableExample, link: str, example_id: str | None = None) -> TableExample:
    """Return a page, its title before it, as a table of one cell without links.

    The example keeps the question's name where it is given no other.

    Source: wenhuchen/HybridQA, stage 3.
    """
    rows = ((Cell(page_context(example.table, link)),),)
    table = Table(f"{example.table.table_id}{link}", (Cell(""),), rows)
    answer = example.answer and Answer(example.answer.texts, ((0, 0),), example.answer.source)
    return TableExample(example_id or example.example_id, example.question, table, answer)
