"""The loss of a span among all spans of a bounded length."""

import torch


def correct_spans(label_ids: torch.Tensor, max_length: int) -> torch.Tensor:
    """Mark the spans that start where a run of labelled tokens starts and end where one ends.

    Args:
        label_ids: 1 on the tokens of the answer [B, T].
        max_length: L, the most tokens of a span.

    Returns:
        Bool [B, T, L], axis L being the length minus one; a run of more than L tokens has no correct span.
    """
    labels = torch.nn.functional.pad(label_ids.bool(), (1, 1))
    starts = labels[:, 1:-1] & ~labels[:, :-2]
    ends = labels[:, 1:-1] & ~labels[:, 2:]
    ends_after = torch.nn.functional.pad(ends, (0, max_length - 1)).unfold(1, max_length, 1)
    return starts[..., None] & ends_after


def span_loss(logits: torch.Tensor, label_ids: torch.Tensor) -> torch.Tensor:
    """Negative log likelihood of the correct spans among all spans.

    Args:
        logits: scores of every span [B, T, L]; forbidden spans are very negative.
        label_ids: 1 on the tokens of the answer [B, T].

    Returns:
        The loss of each example [B]; 0 where it has no correct span.

    Source: google-research/tapas, `utils/span_prediction_utils.py`, mode "span".
    """
    log_probabilities = logits.flatten(1).log_softmax(-1)
    correct = correct_spans(label_ids, logits.shape[-1]).flatten(1)
    return -log_probabilities.masked_fill(~correct, 0.0).sum(-1)
