"""Language models behind an OpenAI-compatible API, as systems that answer the questions of a dataset.

Requests run in parallel. Each reply is appended to a cache file at once, so that each request is paid for once.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import random
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from multiprocessing.pool import ThreadPool
from pathlib import Path
from string import Template
from typing import IO, Annotated, Any, NamedTuple
from urllib.parse import urlsplit

import requests
from pydantic import Field

from mate_cli.data.answers_file import parse_answer
from mate_cli.data.download import RETRY_STATUS_CODES, parse_retry_after
from mate_cli.data.question_export import question_entry
from mate_cli.errors import ConfigError, RunError
from mate_cli.files.io_errors import wrap_file_errors
from mate_cli.runs.configuration import Seed
from mate_cli.tables.example import SystemAnswer, TableExample
from mate_cli.terminal.progress import Progress

ATTEMPTS = 8
PAUSE, MAX_PAUSE = 1.0, 600.0
"""Seconds before the second attempt, doubled for each later attempt, and maximum pause that a server may request."""
CONNECT_SECONDS = 30.0
INVALID, REJECTED = 200, (200, 400, 413, 422)
"""Status code of a response that is no chat completion, and codes that concern only one question, which may be longer
than the context of the model."""
MAX_INVALID = 3
"""Number of attempts if the body of each response is invalid. The server may bill each of them."""
MAX_FAILURES = 10
"""Number of questions without a reply after which no more questions are asked if none has a reply."""
PLACEHOLDERS = ("title", "table", "passages", "history", "options", "question")
"""Names that the template of a question may contain, as `$table`."""
CHARACTERS_PER_TOKEN = 4
Price = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class Reply:
    """The response of a language model to one question.

    Args:
        text: text of the reply.
        is_refusal: whether the model or a filter of the server declined to answer.
        input_tokens: number of tokens of the prompt as counted by the server. None if it reports no number.
        output_tokens: number of generated tokens.
        seconds: duration of the request.
    """

    text: str
    is_refusal: bool
    input_tokens: int | None
    output_tokens: int | None
    seconds: float

    @classmethod
    def parse(cls, content: Mapping[str, Any], seconds: float, key: str | None) -> Reply:
        """Convert the parsed JSON body of a chat completions response to a `Reply`.

        The API key is removed from the text of the reply.

        Raises:
            LookupError, TypeError, AttributeError: the body does not follow the API.
        """
        choice, usage = content["choices"][0], content.get("usage") or {}
        message = choice["message"]
        refusal, text = message.get("refusal"), message.get("content")
        is_refusal = bool(refusal) or choice.get("finish_reason") == "content_filter"
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        sent, generated = (count if type(count) is int and count >= 0 else None for count in counts)
        return cls(remove_key(text or refusal or "", key), is_refusal, sent, generated, seconds)

    def find_items(self) -> list[Any] | None:
        """Return the last JSON list of texts and numbers in the reply, or None without a list."""
        last_items, start = None, 0
        while (start := self.text.find("[", start)) >= 0:
            end = start + 1
            try:
                items, end = json.JSONDecoder().raw_decode(self.text, start)
                parse_answer({"answer": items})
                last_items = items
            except RecursionError:
                break
            except (ValueError, TypeError):
                pass
            start = end
        return last_items


class Failure(NamedTuple):
    """The reason why a request to a language model received no usable response.

    Args:
        text: reason.
        status: HTTP status code. 0 if no response was received.
        pause: pause in seconds that the server requests.
    """

    text: str
    status: int = 0
    pause: float = 0.0


class Request(NamedTuple):
    """The request that sends one question to a language model.

    Args:
        digest: hash of endpoint, seed and body, the key of the cached reply.
        body: model, messages and further fields.
    """

    digest: str
    body: dict[str, Any]


@dataclass(frozen=True)
class LanguageModel:
    """A language model behind an OpenAI-compatible API of chat completions.

    Args:
        endpoint: URL of the API without `/chat/completions`.
        model: name of the model on the server.
        key_variable: name of the environment variable with the API key. None sends no key.
        shots: number of training questions with gold answers before each question.
        seed: seed of the sampled training questions. Replies for different seeds are cached separately.
        parallel: number of parallel requests.
        timeout: seconds to wait for a reply.
        input_price: price of one million input tokens. None: unknown.
        output_price: price of one million output tokens. None: unknown.
        request: further fields of each request, such as temperature and max_tokens.

    Raises:
        ConfigError: the model is missing, or the endpoint is invalid.
    """

    endpoint: str
    model: str | None = None
    key_variable: str | None = None
    shots: Annotated[int, Field(ge=0)] = 0
    seed: Seed = 1
    parallel: Annotated[int, Field(gt=0, le=256)] = 8
    timeout: Annotated[float, Field(gt=0)] = 600.0
    input_price: Price | None = None
    output_price: Price | None = None
    request: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        url = urlsplit(self.endpoint)
        if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc or url.query or url.fragment:
            # The value is not repeated, because it may contain a password.
            hint = "Write https://HOST/v1, and name the variable with the key in system.key_variable"
            raise ConfigError("is no plain URL of a server", where="system.endpoint", remedy=hint)
        if not self.model:
            raise ConfigError("needs a value", where="system.model", remedy="Name the model of the server")

    def read_key(self) -> str | None:
        """Return the API key from the environment variable that `key_variable` names, or None.

        Raises:
            ConfigError: the variable is not set, or its value is no valid key.
        """
        name, location = self.key_variable, "system.key_variable"
        if name is None:
            return None
        if not name.isidentifier():
            # The value is not repeated, because it may be the key itself.
            problem = "is not the name of an environment variable"
            raise ConfigError(problem, where=location, remedy="Write OPENAI_API_KEY")
        key = os.environ.get(name, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            problem = f"the environment variable {name} {'is no valid key' if key else 'is not set'}"
            raise ConfigError(problem, where=location, remedy="Set it to the key; null: the server needs no key")
        return key

    def build_requests(
        self, examples: Iterable[TableExample], train: Sequence[TableExample], instructions: str, question: str
    ) -> dict[str, Request]:
        """Build one request per question for the language model.

        A request has instructions, solved training questions, and the question itself. Training questions about the
        table of the question are skipped.

        Args:
            examples: questions to ask.
            train: training questions with gold answers.
            instructions: text of the system message.
            question: template of each question with `PLACEHOLDERS`.

        Returns:
            Requests by question id.
        """
        shuffled, requests_by_id = random.Random(self.seed).sample(train, len(train)), {}
        for example in examples:
            texts = [("system", instructions.strip())]
            for shot in islice((s for s in shuffled if s.table.table_id != example.table.table_id), self.shots):
                gold = json.dumps(find_gold_items(shot), ensure_ascii=False)
                texts += [("user", fill_template(question, shot)), ("assistant", gold)]
            texts.append(("user", fill_template(question, example)))
            messages = [{"role": role, "content": text} for role, text in texts]
            body = {"model": self.model, **self.request, "messages": messages}
            content = json.dumps([self.endpoint, self.seed, body], sort_keys=True)
            requests_by_id[example.example_id] = Request(hashlib.sha256(content.encode()).hexdigest(), body)
        return requests_by_id

    @contextmanager
    def open_cache(self, folder: Path) -> Iterator[tuple[IO[str], dict[str, Reply]]]:
        """Open and lock the file in which the replies of this model are cached.

        Yields:
            The open file, and its replies by the digest of the request.

        Raises:
            RunError: the file cannot be written, or another process is asking the model.
        """
        digest = hashlib.sha256(f"{self.endpoint} {self.model}".encode()).hexdigest()[:8]
        name = re.sub(r"[^\w.-]+", "_", str(self.model))[:80]
        path = folder.expanduser() / "replies" / f"{name}-{digest}.jsonl"
        with wrap_file_errors(path, RunError, "cannot be written", "Choose another paths.cache"):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "a+", encoding="utf-8", errors="replace") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                hint = "Wait for it, so that each question is paid for once"
                raise RunError("another process is asking this model", where=str(path), remedy=hint) from error
            replies, line = {}, "\n"
            file.seek(0)
            for line in file:
                # A killed process may leave an incomplete line.
                with suppress(ValueError, TypeError, KeyError, AttributeError):
                    values = json.loads(line)
                    digest = values.pop("digest")
                    replies[digest] = Reply(**values)
            file.write("" if line.endswith("\n") else "\n")
            yield file, replies

    def ask(self, bodies: Mapping[str, Any], file: IO[str], replies: dict[str, Reply], *, any_known: bool) -> list[str]:
        """Send requests to the language model in parallel, and add each reply to the cache file.

        Args:
            bodies: body of each request by digest.
            file: cache file.
            replies: replies in the cache file, to which the new replies are added.
            any_known: whether another question of the evaluation has a reply.

        Returns:
            The reason for each request without a reply.

        Raises:
            RunError: the server is unreachable, rejects the key or the model, or answers no question.
        """
        key, failures = self.read_key(), list[str]()
        reached, lock = threading.Event(), threading.Lock()

        def ask_one(item: tuple[str, Any]) -> tuple[str, Reply | Failure]:
            reply = self._request(session, item[1], key, reached)
            if isinstance(reply, Reply):
                with lock:
                    file.write(json.dumps({"digest": item[0], **asdict(reply)}) + "\n")
                    file.flush()
            return item[0], reply

        with requests.Session() as session, Progress(f"asking {self.model}", len(bodies), "questions") as progress:
            session.mount(self.endpoint, requests.adapters.HTTPAdapter(pool_maxsize=self.parallel))
            # A callable keeps requests from replacing the header by credentials of a .netrc file.
            session.auth = partial(_authorize, key)
            # The threads of ThreadPool are daemons, so an interrupt does not wait for pending replies.
            with ThreadPool(self.parallel) as pool:
                for digest, reply in pool.imap_unordered(ask_one, bodies.items()):
                    progress.advance()
                    if isinstance(reply, Reply):
                        replies[digest], any_known = reply, True
                        continue
                    failures.append(reply.text)
                    if not any_known and len(failures) >= min(MAX_FAILURES, len(bodies)):
                        hint = "Check system.model, system.request and the prompt"
                        raise RunError(f"no question is answered: {reply.text}", where=self.endpoint, remedy=hint)
        return failures

    def _request(
        self,
        session: requests.Session,
        body: Any,  # noqa: ANN401 - JSON
        key: str | None,
        reached: threading.Event,
    ) -> Reply | Failure:
        """Send one request to the server, with retries.

        Return a failure if the server rejects only this question.

        Args:
            session: session with the API key.
            body: body of the request.
            key: API key, which is removed from texts of the server.
            reached: set after the first response. Before it, connection errors are not retried.

        Raises:
            RunError: the server is unreachable, or rejects the key or the model.
        """
        for attempt in range(ATTEMPTS):
            result = self._post(session, body, key)
            if isinstance(result, Reply) or result.status:
                reached.set()
            if isinstance(result, Reply):
                return result
            is_lost = not reached.is_set() or result.status not in (0, INVALID, *RETRY_STATUS_CODES)
            if is_lost or attempt + 1 == (MAX_INVALID if result.status == INVALID else ATTEMPTS):
                break
            time.sleep(max(result.pause, PAUSE * 2**attempt))
        assert isinstance(result, Failure)
        if result.status in REJECTED:
            return result
        hint = "Run the command again to continue" if reached.is_set() else "Start the server, or set system.endpoint"
        if result.status not in (0, *RETRY_STATUS_CODES):
            hint = "Check system.endpoint, system.model and the key in system.key_variable"
        raise RunError(result.text, where=self.endpoint, remedy=hint)

    def _post(self, session: requests.Session, body: Any, key: str | None) -> Reply | Failure:  # noqa: ANN401 - JSON
        url, start = f"{self.endpoint.rstrip('/')}/chat/completions", time.monotonic()
        limits = (CONNECT_SECONDS, self.timeout)
        try:
            # A redirect could send the question and the key to another host.
            response = session.post(url, json=body, timeout=limits, allow_redirects=False)
            if response.status_code == requests.codes.ok:
                return Reply.parse(response.json(), round(time.monotonic() - start, 3), key)
        except (requests.JSONDecodeError, LookupError, TypeError, AttributeError):
            return Failure("the server's reply is no chat completion", INVALID)
        except (requests.RequestException, ValueError) as error:
            return Failure(f"{urlsplit(url).hostname} cannot be reached ({type(error).__name__})")
        reason = ""
        with suppress(ValueError, LookupError, TypeError):
            reason = f": {' '.join(remove_key(response.json()['error']['message'], key).split())[:200]}"
        pause = parse_retry_after(response.headers, MAX_PAUSE)
        return Failure(f"the server returned {response.status_code}{reason}", response.status_code, pause)

    def find_cost(self, input_tokens: int | None, output_tokens: int | None) -> float | None:
        """Compute the cost of a request from its token counts.

        Return None if a price is unknown.
        """
        pairs = ((input_tokens, self.input_price), (output_tokens, self.output_price))
        costs = [tokens * price / 1e6 for tokens, price in pairs if tokens is not None and price is not None]
        return sum(costs) if len(costs) == len(pairs) else None

    def convert(self, reply: Reply) -> SystemAnswer:
        """Convert a reply of the language model to the answer of a dataset question.

        The answer is the last JSON list of the reply, else the whole text. A refusal becomes an answer without items.
        """
        items = [] if reply.is_refusal else reply.find_items()
        cost = self.find_cost(reply.input_tokens, reply.output_tokens)
        return parse_answer({"answer": [reply.text.strip()] if items is None else items, "cost": cost})

    def describe_plan(self, bodies: Collection[Mapping[str, Any]], cached: int) -> str:
        """Describe how many requests will be sent, with estimates of their tokens and cost.

        Args:
            bodies: bodies of the requests.
            cached: number of questions with a cached reply.
        """
        texts = [message["content"] for body in bodies for message in body["messages"]]
        sent, limit = sum(map(len, texts)) // CHARACTERS_PER_TOKEN, self.request.get("max_tokens")
        generated = len(bodies) * limit if isinstance(limit, int) else None
        cost = self.find_cost(sent, generated)
        text = f"{len(bodies):,} requests to {self.endpoint}, {cached:,} questions have a cached reply"
        text += f"; about {sent:,} input tokens" + (f", at most {generated:,} output tokens" if generated else "")
        return text + ("" if cost is None else f"; cost at most about {cost:.4g}")


def check_template(template: str) -> None:
    """Check the placeholders, such as `$question`, in the template of a question.

    Raises:
        ConfigError: a placeholder is unknown, or `$question` is missing.
    """
    matches = [*Template.pattern.finditer(template)]
    names = {match["named"] or match["braced"] or "" for match in matches if match["escaped"] is None}
    unknown = [f"unknown placeholder ${name}" for name in sorted(names - {*PLACEHOLDERS})]
    if problems := unknown or ["has no $question"] * ("question" not in names):
        hint = f"Placeholders are {', '.join(f'${name}' for name in PLACEHOLDERS)}; write $$ for a dollar sign"
        raise ConfigError(problems[0], where="prompt.question", remedy=hint)


def fill_template(template: str, example: TableExample) -> str:
    """Replace the placeholders in the template of a question by the values of the question."""
    entry = question_entry(example)
    passages = dict.fromkeys(f"{passage['title']}: {passage['text']}" for passage in entry.get("passages", ()))
    lists = {"passages": passages, **{name: entry.get(name, ()) for name in ("history", "options")}}
    values = {"table": entry["markdown"], **{name: entry.get(name, "") for name in ("title", "question")}}
    text = Template(template).substitute(values, **{name: "\n".join(lines) for name, lines in lists.items()})
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def find_gold_items(example: TableExample) -> list[str]:
    """Return the items of a training question's gold answer, or [] if the answer is unknown."""
    if example.answer is None:
        return []
    label = example.answer.label
    return [example.options[label]] if example.options and label is not None else [*example.answer.texts]


def remove_key(text: str, key: str | None) -> str:
    """Replace the API key in a text that the server returned."""
    return text.replace(key, "[key]") if key else text


def _authorize(key: str | None, request: requests.PreparedRequest) -> requests.PreparedRequest:
    if key is not None:
        request.headers["Authorization"] = f"Bearer {key}"
    return request
