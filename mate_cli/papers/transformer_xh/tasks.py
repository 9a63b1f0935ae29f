"""Tasks on evidence graphs: answers with supporting sentences, cell ranking, entailment.

Source: Zhao et al. 2020, "Transformer-XH", sections 3 and 4; microsoft/Transformer-XH, `model_hotpotqa.py`, which
predicts neither yes/no answers nor supporting sentences, and `model_fever.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, nll_loss, pad

from mate_cli.data.baselines import tfidf_cell_ranking
from mate_cli.lit_modules.base import Selection, TableTask, TaskSpec, Training
from mate_cli.lit_modules.candidate_choice import first_tokens
from mate_cli.lit_modules.cell_selection import CellSelection
from mate_cli.lit_modules.entailment import Entailment, Verdict
from mate_cli.lit_modules.losses import binary_cross_entropy
from mate_cli.metrics.accuracy import accuracy
from mate_cli.metrics.specs import Metric
from mate_cli.metrics.subsets import group_by_subset
from mate_cli.models.base.table_encoder import EncoderOutput, TableEncoder, TaskContext
from mate_cli.models.heads.scores import NO_LOGIT, CellLogits
from mate_cli.models.layers.encoder import Dropout
from mate_cli.papers.transformer_xh.metrics.supporting import score_documents
from mate_cli.papers.transformer_xh.models.evidence_heads import (
    MixtureHead,
    MixtureOutput,
    NodeHead,
    ReadingHead,
    ReadingLogits,
    group_by_node,
    sentence_sums,
)
from mate_cli.papers.transformer_xh.relations import NODE_CELLS, SENTENCE_IDS
from mate_cli.papers.transformer_xh.serializer import ANSWER_KINDS, HAS_ANSWER, SUPPORTS, UNJUDGED
from mate_cli.tables.example import VERDICTS, Coordinates, TableExample
from mate_cli.tokenization.layout import TableBatch


@dataclass(frozen=True)
class EvidenceAnswer:
    """A predicted answer, with the sentences that support it.

    Args:
        start: index of the answer's first token in the example's encoding, from 0.
        end: index of the answer's last token.
        kind: index in `ANSWER_KINDS`: text span, yes or no.
        cell: (row, column) of the best node, from 0.
        probability: sigmoid of the logit of the best node.
        supporting: (row, sentence) of the supporting sentences, from 0.
    """

    example_id: str
    start: int
    end: int
    kind: int
    cell: tuple[int, int]
    probability: float
    supporting: Coordinates


class EvidenceReading(TableTask[TableExample, EvidenceAnswer]):
    """Reads an answer from the best of several nodes, and its supporting sentences.

    The answer starts at the best first token of the best node and ends at the best last token within `max_span_length`.
    Sentences with a probability above 0.5 are supporting sentences.

    Args:
        max_span_length: maximum number of tokens of an answer.
        answer_kinds: if true, predict whether the answer is yes, no or a text span. False: as released.
        supporting_sentences: if true, predict supporting sentences. False: as released.
        dropout: dropout probability of the pooled states.
    """

    spec = TaskSpec("dev/f1", label="answer", encoding="documents", uses_pooler=True)

    def __init__(
        self,
        context: TaskContext,
        max_span_length: Annotated[int, Field(gt=0)] = 10,
        answer_kinds: bool = True,
        supporting_sentences: bool = True,
        dropout: Dropout = 0.1,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        super().__init__(context, metrics=metrics)
        self.add_heads(lambda encoder: ReadingHead(encoder.size.hidden_size, len(ANSWER_KINDS), dropout))
        self.head.kind.requires_grad_(answer_kinds)
        self.head.sentence.requires_grad_(supporting_sentences)
        self.max_span_length, self.serializer = max_span_length, context.serializer
        self.answer_kinds, self.supporting_sentences = answer_kinds, supporting_sentences

    def output_loss(self, output: EncoderOutput, head: ReadingHead, encoder: TableEncoder) -> torch.Tensor:
        """Compute the mean loss of nodes, answer spans and supporting sentences, a scalar.

        The mean answer type loss over examples with a known answer type is added.

        Args:
            output: output of the encoder.
            head: head of the task.
            encoder: encoder with the pooler.
        """
        logits: ReadingLogits = head(output, encoder.pooler)
        targets = reading_targets(output.batch, logits)
        losses = binary_cross_entropy(logits.nodes, targets.judged, targets.answers) + span_losses(logits, targets)
        if self.supporting_sentences:
            losses = losses + sentence_losses(logits, targets)
        loss = self.average_terms(losses.sum(), output.batch)
        if not self.answer_kinds:
            return loss
        total = cross_entropy(logits.kinds, targets.kinds, ignore_index=-1, reduction="sum")
        return loss + self.average_terms(total, output.batch, "kinds")

    def count_terms(self, batch: TableBatch) -> dict[str, Tensor | int]:
        """Count the terms over which the node, span and answer type losses are averaged.

        These are the examples, and the examples with a known answer type.
        """
        assert batch.class_ids is not None
        return {**super().count_terms(batch), "kinds": (batch.class_ids >= 0).sum()}

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[EvidenceAnswer]:
        """Return the most probable answer of each example, with its supporting sentences."""
        logits: ReadingLogits = self.head(output, self.encoder.pooler)
        best_nodes = logits.nodes.argmax(-1)
        example = torch.arange(len(best_nodes), device=best_nodes.device)
        ends = logits.starts[example, best_nodes], logits.ends[example, best_nodes]
        start, end = best_span(*ends, self.max_span_length)
        first = logits.tokens[example, best_nodes]
        kinds = logits.kinds.argmax(-1) if self.answer_kinds else torch.zeros_like(best_nodes)
        cells = output.batch.more[NODE_CELLS]
        is_supporting = (logits.sentences > 0) & logits.is_sentence & self.supporting_sentences
        supporting: list[list[tuple[int, int]]] = [[] for _ in best_nodes]
        for row, node, sentence in is_supporting.nonzero().tolist():
            supporting[row].append((int(cells[row, node, 0]), sentence))
        columns = (
            output.batch.find_places(first + start).tolist(),
            output.batch.find_places(first + end).tolist(),
            kinds.tolist(),
            [(row, column) for row, column in cells[example, best_nodes].tolist()],
            logits.nodes[example, best_nodes].sigmoid().tolist(),
            [tuple(sentences) for sentences in supporting],
        )
        return [EvidenceAnswer(*values) for values in zip(output.batch.example_ids, *columns, strict=True)]

    def answers(self, predictions: Sequence[EvidenceAnswer], examples: Mapping[str, TableExample]) -> dict[str, str]:
        """Return the text of each answer, by example id."""
        return {p.example_id: self._text(p, examples[p.example_id]) for p in predictions}

    def _text(self, prediction: EvidenceAnswer, example: TableExample) -> str:
        if prediction.kind:
            return ANSWER_KINDS[prediction.kind]
        return self.serializer.span_text(example, prediction.start, prediction.end)

    def is_correct(self, prediction: EvidenceAnswer, example: TableExample) -> bool:
        """Return whether the predicted text equals the gold answer after normalization."""
        return self.score([prediction], {example.example_id: example})["em"] == 1

    def score(self, predictions: Sequence[EvidenceAnswer], examples: Mapping[str, TableExample]) -> dict[str, float]:
        """Return exact match and F1 of answers, and the accuracy of the best node.

        With supporting sentences, also return their scores and the joint scores.
        """
        answerable = {name: example for name, example in examples.items() if example.answer}
        groups = group_by_subset(answerable)
        supporting = {p.example_id: p.supporting for p in predictions} if self.supporting_sentences else None
        scores = score_documents(self.answers(predictions, answerable), supporting, answerable, groups)
        cells = {p.example_id: p.cell for p in predictions}
        correct = [n for n, e in answerable.items() if e.answer and cells.get(n) in e.answer.coordinates]
        return {**scores, **accuracy("node_accuracy", correct, answerable, groups)}

    def details(self, prediction: EvidenceAnswer) -> dict[str, Any]:
        """Return the fields of a prediction for prediction files, with its supporting sentences."""
        return {**super().details(prediction), "supporting": [list(sentence) for sentence in prediction.supporting]}

    def selection(self, prediction: EvidenceAnswer) -> Selection | None:
        """Convert a prediction to a `Selection` with the cell of the most probable node."""
        return Selection((prediction.cell,), (prediction.probability,), prediction.probability)

    def baselines(self, examples: Mapping[str, TableExample], training: Training[TableExample]) -> dict[str, float]:
        """Return the accuracy of the node that is most similar to the question by TF-IDF."""
        answerable = {name: example for name, example in examples.items() if example.answer}
        best_cells = {
            name: tfidf_cell_ranking(example.table, example.question)[:1] for name, example in answerable.items()
        }
        correct = [n for n, e in answerable.items() if e.answer and set(best_cells[n]) & set(e.answer.coordinates)]
        return {f"tfidf/{name}": value for name, value in accuracy("node_accuracy", correct, answerable).items()}


def best_span(starts: torch.Tensor, ends: torch.Tensor, limit: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first and the last token of the best span of at most `limit` tokens, each [B].

    Source: microsoft/Transformer-XH, `utils.py`.

    Args:
        starts: logits of the first token [B, L].
        ends: logits of the last token [B, L].
        limit: maximum number of tokens of a span.
    """
    start = starts.argmax(-1)
    offset = torch.arange(starts.shape[-1], device=starts.device) - start[:, None]
    end = ends.masked_fill((offset < 0) | (offset >= limit), 2 * NO_LOGIT).argmax(-1)
    return start, end


@dataclass(frozen=True)
class ReadingTargets:
    """Training targets for reading: which nodes, tokens and sentences contain the answer.

    Args:
        answers: Bool [B, K], nodes with the answer.
        judged: Bool [B, K], annotated nodes.
        starts: Bool [B, K, L], first tokens of the answer.
        ends: Bool [B, K, L], last tokens of the answer.
        kinds: type of the answer [B], -1 if unknown.
        supporting: Bool [B, K, S], sentences that support the answer.

    Source: microsoft/Transformer-XH, `utils.py`: binary cross entropy of texts, and the mean cross entropy of the
        first and the last token over the texts that contain the answer.
    """

    answers: Tensor
    judged: Tensor
    starts: Tensor
    ends: Tensor
    kinds: Tensor
    supporting: Tensor


def reading_targets(batch: TableBatch, logits: ReadingLogits) -> ReadingTargets:
    """Build the training targets of span reading from the labels of a batch."""
    assert batch.label_ids is not None
    assert batch.class_ids is not None
    labels = group_by_node(batch.label_ids, batch, logits.mask, 0)
    is_answer = pad((labels & HAS_ANSWER) > 0, (1, 1))
    numbers = batch.more.get(SENTENCE_IDS, torch.zeros_like(batch.row_ids))
    marked = sentence_sums((batch.label_ids & SUPPORTS).float(), numbers * batch.attention_mask, batch, logits.mask)
    return ReadingTargets(
        answers=is_answer.any(-1),
        judged=logits.mask & ~((labels & UNJUDGED) > 0).any(-1),
        starts=is_answer[..., 1:-1] & ~is_answer[..., :-2],
        ends=is_answer[..., 1:-1] & ~is_answer[..., 2:],
        kinds=batch.class_ids,
        supporting=pad(marked, (0, logits.sentences.shape[-1] - marked.shape[-1])) > 0,
    )


def span_losses(logits: ReadingLogits, targets: ReadingTargets) -> Tensor:
    """Return the mean cross entropy of start and end over the nodes with the answer [B].

    The loss is 0 if no node contains the answer.
    """
    losses = [
        -(scores.log_softmax(-1) * target).sum(-1)
        for scores, target in ((logits.starts, targets.starts), (logits.ends, targets.ends))
    ]
    answers = targets.answers
    return ((losses[0] + losses[1]) / 2 * answers).sum(-1) / answers.sum(-1).clamp(min=1)


def sentence_losses(logits: ReadingLogits, targets: ReadingTargets) -> Tensor:
    """Compute the mean binary cross entropy of the supporting-sentence logits of each example, [B].

    The loss is 0 if no supporting sentence is known.
    """
    target = targets.supporting & logits.is_sentence
    losses = binary_cross_entropy_with_logits(logits.sentences, target.float(), reduction="none")
    total = (losses * logits.is_sentence).sum((1, 2)) / logits.is_sentence.sum((1, 2)).clamp(min=1)
    return total * target.any(-1).any(-1)


class EvidenceRanking(CellSelection):
    """Cell selection with one logit per node, from the pooled first token of the node.

    Everything else is equal to cell selection (MATE paper, section 4.1).

    Args:
        **options: arguments of `CellSelection`. Transformer-XH was released with `loss=binary`.
    """

    spec = replace(CellSelection.spec, label="evidence", encoding="evidence", uses_pooler=True, auto_class=None)

    def build_head(self, encoder: TableEncoder) -> NodeHead:
        """Create the output head, which computes one logit per node of the graph."""
        return NodeHead(encoder.size.hidden_size, self.dropout.p)

    def cell_logits(self, output: EncoderOutput, head: NodeHead, encoder: TableEncoder) -> CellLogits:  # type: ignore[override]
        """Compute one logit per node, which is the logit of the node's cell.

        Args:
            output: output of the encoder.
            head: head of the task.
            encoder: encoder with the pooler.
        """
        logits: CellLogits = head(output, encoder.pooler)
        return logits


@dataclass(frozen=True)
class EvidenceVerdict(Verdict):
    """A predicted label of a statement and the rows with the largest mixture weights.

    Args:
        rows: (row, weight) in descending order of weight, rows from 0.
    """

    rows: tuple[tuple[int, float], ...] = ()


class EvidenceEntailment(Entailment):
    """Entailment as a mixture of the nodes' class probabilities with softmax weights.

    Examples with known evidence also train the mixture weights.

    Args:
        double_softmax: if true, apply cross entropy to probabilities, as microsoft/Transformer-XH does.
        dropout: dropout probability of the pooled states.
        keep: number of rows stored with each prediction.
    """

    spec = replace(Entailment.spec, label="rows", encoding="rows", transformers_class=None)

    def __init__(
        self,
        context: TaskContext,
        double_softmax: bool = False,
        dropout: Dropout = 0.1,
        keep: Annotated[int, Field(ge=1)] = 5,
        *,
        metrics: Sequence[Metric] = (),
    ) -> None:
        TableTask.__init__(self, context, metrics=metrics)
        self.add_heads(lambda encoder: MixtureHead(encoder.size.hidden_size, len(VERDICTS), dropout))
        self.double_softmax, self.keep = double_softmax, keep

    def output_loss(self, output: EncoderOutput, head: MixtureHead, encoder: TableEncoder) -> Tensor:  # type: ignore[override]
        """Return the mean class loss plus the mean evidence loss of examples with known evidence.

        Args:
            output: output of the encoder.
            head: head of the task.
            encoder: encoder with the pooler.
        """
        batch = output.batch
        assert batch.class_ids is not None
        assert batch.label_ids is not None
        mixture: MixtureOutput = head(output, encoder.pooler)
        if self.double_softmax:
            total = cross_entropy(mixture.log_probabilities.exp(), batch.class_ids, reduction="sum")
        else:
            total = nll_loss(mixture.log_probabilities, batch.class_ids, reduction="sum")
        is_evidence = (batch.label_ids.gather(1, mixture.tokens) > 0) & mixture.mask
        losses = binary_cross_entropy(mixture.node_logits, mixture.mask, is_evidence) * is_evidence.any(-1)
        return self.average_terms(total, batch) + self.average_terms(losses.sum(), batch, "evidence")

    def count_terms(self, batch: TableBatch) -> dict[str, Tensor | int]:
        """Count the examples, and the examples with known evidence, to average the losses."""
        assert batch.label_ids is not None
        example, token = first_tokens(batch)
        with_evidence = example[batch.label_ids[example, token] > 0]
        return {**TableTask.count_terms(self, batch), "evidence": len(set(with_evidence.tolist()))}

    def predictions(self, output: EncoderOutput, batch: TableBatch) -> list[Verdict]:
        """Return the most probable verdict on each statement, with the weights of its rows."""
        mixture: MixtureOutput = self.head(output, self.encoder.pooler)
        shares, labels = mixture.log_probabilities.exp().max(-1)
        weights, nodes = mixture.node_logits.softmax(-1).topk(min(self.keep, mixture.mask.shape[1]))
        verdicts: list[Verdict] = []
        for index, name in enumerate(output.batch.example_ids):
            rows = self._rows(output.batch, mixture.mask[index], nodes[index], index)
            top_rows = tuple(zip(rows, weights[index].tolist(), strict=False))
            verdicts.append(EvidenceVerdict(name, int(labels[index]), float(shares[index]), top_rows))
        return verdicts

    def _rows(self, batch: TableBatch, mask: Tensor, nodes: Tensor, index: int) -> Sequence[int]:
        valid_nodes = nodes[mask[nodes]]
        cells = batch.more.get(NODE_CELLS)
        rows: list[int] = (valid_nodes if cells is None else cells[index, valid_nodes, 0]).tolist()
        return rows

    def details(self, prediction: Verdict) -> dict[str, Any]:
        """Return the fields of a verdict for prediction files, with the rows of the largest weights."""
        rows = prediction.rows if isinstance(prediction, EvidenceVerdict) else ()
        return {**super().details(prediction), "rows": [list(row) for row in rows]}
