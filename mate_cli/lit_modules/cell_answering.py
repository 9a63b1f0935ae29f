"""Table-only baseline: the answer is the text of a cell, independent of linked passages."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mate_cli.lit_modules.cell_selection import CellRanking, CellSelection
from mate_cli.metrics.exact_match import score_answers
from mate_cli.tables.example import TableExample
from mate_cli.tables.text import table_matches


class CellAnswering(CellSelection):
    """A cell selector trained on cells whose text contains the answer.

    The predicted answer is the text of the best cell.

    Source: a substitute for the table-only baseline of Chen et al. 2020, "HybridQA", section 5, a semantic parser that
        is not released.
    """

    spec = replace(CellSelection.spec, monitor="dev/f1")

    def training_examples(self, examples: Sequence[TableExample]) -> list[TableExample]:
        """Return the examples whose table has cells with the answer text. Only these cells are labeled."""
        return super().training_examples([_in_table(example) for example in examples])

    def score(self, predictions: Sequence[CellRanking], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Compute exact match and F1 of the text of the most probable cell, and Hits@k of the ranking."""
        answers = self.answers(predictions, examples)
        return {**super().score(predictions, examples), **score_answers(answers, examples)}


def _in_table(example: TableExample) -> TableExample:
    if not example.answer:
        return example
    cells = table_matches(example.table, " ".join(example.answer.texts))
    return replace(example, answer=replace(example.answer, coordinates=tuple(cells)))
