"""From word pieces back to the text that they came from.

Source: google-research/tapas, `experiments/prediction_utils.py` and `retrieval/e2e_eval_utils.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mate_cli.tokenization.vocabulary import CONTINUATION, Vocabulary


def find_pieces(needle: np.ndarray, haystack: np.ndarray) -> int:
    """Where a run of pieces occurs first in another; -1 when it does not, or is empty."""
    step, wanted = needle.itemsize, needle.tobytes()
    text = haystack.astype(needle.dtype, copy=False).tobytes()
    place = text.find(wanted) if wanted else -1
    while place > 0 and place % step:
        place = text.find(wanted, place + 1)
    return place // step if place >= 0 else -1


def span_text(vocabulary: Vocabulary, pieces: np.ndarray, texts: Sequence[str], place: int | None = None) -> str:
    """The words of a text that pieces were split from, as they are written there, case and accents kept.

    The pieces are widened to whole words, where punctuation marks are words of their own.
    The likeliest text comes first; `place` is the span's first piece in it where it is known, else the first occurrence
    is taken.

    Returns:
        The text; the pieces themselves, joined, when no text has them.
    """
    pieces = np.asarray(pieces, dtype=np.int32)
    for number, text in enumerate(texts):
        encoding = vocabulary.encoding(text)
        ids = np.array(encoding.ids, dtype=np.int32)
        known = place is not None and number == 0 and np.array_equal(ids[place : place + len(pieces)], pieces)
        first = place if known else find_pieces(pieces, ids)
        if first is not None and first >= 0 and len(pieces):
            words, last = encoding.word_ids, first + len(pieces) - 1
            begin, _ = encoding.offsets[words.index(words[first])]
            _, end = encoding.offsets[len(words) - 1 - words[::-1].index(words[last])]
            return text[begin:end]
    return joined_pieces(vocabulary, pieces)


def joined_pieces(vocabulary: Vocabulary, pieces: np.ndarray) -> str:
    """Pieces as a text: words separated by spaces, [EMPTY] left out."""
    tokens = [vocabulary.tokens[piece] for piece in pieces if piece != vocabulary.empty_id]
    return " ".join(tokens).replace(f" {CONTINUATION}", "").removeprefix(CONTINUATION)
