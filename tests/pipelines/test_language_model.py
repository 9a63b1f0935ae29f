"""Language models behind an API, asked by `mate evaluate system=` and scored as other systems are."""

import json
import os
import signal
import subprocess
import threading
import time

import pytest
from language_model_server import chat, serve
from table_releases import WRITERS, write_wtq

from mate_cli.cli.app import PROGRAM, main
from mate_cli.data.datasets.catalogue import find_dataset
from mate_cli.pipelines.evaluation import language_model
from mate_cli.pipelines.evaluation.language_model import LanguageModel, Reply

ANSWERS = {"how many goals for Ann?": 'So: ["3"]', "who scored first?": "It was Ann"}
SECRET = "sk-TOP-secret/1"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(language_model, "PAUSE", 0.001)


def answer(text, before):
    return chat(next((reply for question, reply in ANSWERS.items() if question in text), "[]"))


def words(tmp_path, server, *more):
    places = [f"paths.outputs={tmp_path / 'out'}", f"paths.cache={tmp_path / 'cache'}"]
    data = ["data=wtq", f"data.root={write_wtq(tmp_path / 'wtq')}", "split=train"]
    system = ["system=openai_compatible", "system.model=m", f"system.endpoint={getattr(server, 'url', server)}"]
    return ["evaluate", *system, *data, *places, *more]


def read_run(tmp_path):
    (record,) = tmp_path.glob("out/evaluate/*/*/record.json")
    return json.loads(record.read_text()), record.parent


def test_a_model_is_asked_once_and_its_answers_tokens_cost_and_time_are_recorded(tmp_path, capsys):
    prices = ["system.input_price=10", "system.output_price=20"]
    with serve(answer) as server:
        assert main([*words(tmp_path, server, *prices), "--dry"]) == 0
        assert capsys.readouterr().out.startswith("4 requests to http://127.0.0.1")
        assert not server.bodies
        assert not (tmp_path / "out").exists()
        assert main(words(tmp_path, server, *prices)) == 0
        asked = server.bodies[0]
        assert (asked["path"], asked["temperature"], asked["max_tokens"]) == ("/v1/chat/completions", 0, 256)
        assert "| Player | Goals |\n| --- | --- |\n| Ann | 3 |" in asked["messages"][1]["content"]
        assert main(words(tmp_path, server, "name=again")) == 0
        assert len(server.bodies) == 4
        assert main(words(tmp_path, server, "system.request.temperature=1", "name=warm")) == 0
        assert len(server.bodies) == 8
    (record,) = tmp_path.glob("out/evaluate/m/*/record.json")
    told, values = capsys.readouterr().out, json.loads(record.read_text())
    assert values["metrics"]["train/denotation_accuracy"] == 0.25
    assert "1 without a JSON list, read as one text" in told
    assert values["throughput"].pop("seconds_per_question") > 0
    expected = {"input_tokens": 100, "output_tokens": 10, "cost": 0.0012}
    assert values["throughput"] == pytest.approx({f"{key}_per_question": value for key, value in expected.items()})
    again = ["evaluate", f"answers={record.parent / 'answers.jsonl'}", *words(tmp_path, server)[4:]]
    assert main(again) == 0, "the answers of a record are a file of answers"
    assert main(["compare", str(tmp_path / "out"), "html=null"]) == 0
    assert "m ‡" in capsys.readouterr().out


def test_scores_on_normalized_cells_are_no_repetition_of_scores_on_cells_as_written(tmp_path, capsys):
    with serve(answer) as server:
        assert main(words(tmp_path, server)) == 0
        assert main(words(tmp_path, server, "perturb=columns")) == 0
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "out"), "html=null"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("m ")]
    assert ["perturb=" in row for row in rows[:2]] == [False, True]


def test_busy_failing_and_refusing_servers_are_asked_again_and_counted(tmp_path, capsys):
    def reply(text, before):
        if "how many goals for Ann" in text:
            busy = [(429, {"Retry-After": "0"}, b""), (503, {}, b"no"), (500, {"Retry-After": "soon"}, b"")]
            return busy[before] if before < len(busy) else chat('["3"]')
        if "who scored first" in text:
            return chat(None, refusal="I cannot help")
        return (200, {}, b"{oops") if before < 1 else (400, {}, {"error": {"message": "too long"}})

    with serve(reply) as server:
        assert main(words(tmp_path, server, "system.parallel=2")) == 0
        assert len(server.bodies) == 4 + 1 + 2 * 2
    record, _ = read_run(tmp_path)
    note = record["facts"]["not trained here"]
    assert "1 refusals" in note
    assert "2 rejected by the server (the server returned 400: too long)" in note
    assert "2 of 4 questions not answered" in note
    assert record["metrics"]["train/denotation_accuracy"] == 0.25
    with serve(answer) as other:
        assert main(words(tmp_path, other)) == 0
        assert len(other.bodies) == 4, "another server is another cache"


def test_the_pause_that_a_server_requests_is_kept(tmp_path):
    times = []

    def reply(text, before):
        times.append(time.monotonic())
        return (429, {"Retry-After": "1"}, b"") if len(times) == 1 else answer(text, before)

    with serve(reply) as server:
        assert main(words(tmp_path, server, "system.parallel=1")) == 0
    assert times[1] - times[0] >= 1


ENDS = {
    "a wrong key": ((401, {}, {"error": {"message": f"bad key {SECRET}"}}), "the server returned 401: bad key [key]"),
    "a wrong model": ((404, {}, b"<html>"), "the server returned 404. Check system.endpoint"),
    "a redirect": ((307, {"Location": "http://127.0.0.2:9/v1"}, b""), "the server returned 307"),
    "invalid requests": ((400, {}, {"error": {"message": "max_tokens\nis old"}}), "400: max_tokens is old"),
    "web pages": ((200, {}, b"<html>"), "is no chat completion"),
    "a server that is always busy": ((429, {}, b""), "the server returned 429. Run the command again to continue"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("reply", "told"), ENDS.values(), ids=ENDS)
def test_a_server_that_answers_nothing_ends_the_command_in_one_line(reply, told, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", SECRET)
    with serve(lambda *_: reply) as server:
        assert main(words(tmp_path, server, "system.key_variable=MY_KEY")) == 2
    error = capsys.readouterr().err
    assert told in error
    assert SECRET not in error
    assert len([line for line in error.splitlines() if line.startswith("error:")]) == 1
    assert not (tmp_path / "out").exists()


def test_a_server_that_is_not_there_ends_the_command_at_once(tmp_path, capsys):
    assert main(words(tmp_path, "http://127.0.0.1:9/v1")) == 2
    assert "127.0.0.1 cannot be reached (ConnectionError). Start the server" in capsys.readouterr().err


def test_a_slow_answer_is_not_waited_for(tmp_path, capsys):
    with serve(lambda *_: time.sleep(1) or chat("[]")) as server:
        assert main(words(tmp_path, server, "system.timeout=0.1", "system.parallel=1")) == 2
    assert "cannot be reached (ReadTimeout)" in capsys.readouterr().err


def test_the_key_is_sent_and_written_nowhere(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MY_KEY", SECRET)
    with serve(lambda *_: chat(f'["{SECRET}"]')) as server:
        assert main(words(tmp_path, server, "system.key_variable=MY_KEY")) == 0
    assert {headers["Authorization"] for headers in server.headers} == {f"Bearer {SECRET}"}
    assert SECRET not in "".join(capsys.readouterr())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "answers.jsonl" for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


REFUSED = {
    "no model": (["system.model=null"], "system.model: needs a value"),
    "no prompt": (["data=squad"], "prompt: needs a value"),
    "no such prompt": (["prompt=poem"], "prompt=poem: no such"),
    "a placeholder": (["prompt.question=$question $tabel"], "prompt.question: unknown placeholder $tabel"),
    "no question": (["prompt.question=$table"], "prompt.question: has no $question"),
    "no key": (["system.key_variable=NO_SUCH_KEY"], "the environment variable NO_SUCH_KEY is not set"),
    "a key in its place": ([f"system.key_variable={SECRET}"], "is not the name of an environment variable"),
    "a password": (["system.endpoint=http://me:pw@host/v1"], "system.endpoint: is no plain URL"),
    "a file": (["system.endpoint=file:///etc/passwd"], "system.endpoint: is no plain URL"),
    "another split": (["split=tests"], "has no split 'tests'"),
    "a system of stages": (["system=pointr"], "system."),
    "a run too": (["run=x"], "run: cannot be combined with system"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("more", "told"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said_before_any_question_is_asked(more, told, tmp_path, capsys):
    with serve(answer) as server:
        assert main(words(tmp_path, server, *more)) == 2
        assert not server.bodies
    error = capsys.readouterr().err
    assert told in error
    assert SECRET not in error
    assert not (tmp_path / "out").exists()


@pytest.mark.long
def test_the_answers_of_a_killed_command_are_not_asked_again(tmp_path):
    release = threading.Event()

    def reply(text, before):
        if "goals for Ann" not in text:
            release.wait(60)
        return answer(text, before)

    with serve(reply) as server:
        arguments = words(tmp_path, server, "system.parallel=1")
        process = subprocess.Popen([*PROGRAM, *arguments], stderr=subprocess.DEVNULL, env={**os.environ})
        while len(server.bodies) < 2 and process.poll() is None:
            time.sleep(0.02)
        assert main(arguments) == 2, "two commands would pay twice"
        process.send_signal(signal.SIGKILL)
        process.wait()
        (cache,) = tmp_path.glob("cache/replies/*.jsonl")
        with cache.open("a") as file:
            file.write('{"digest": "cut o')
        release.set()
        assert main(arguments) == 0
        assert len([text for text in server.questions if "goals for Ann" in text]) == 1
    assert read_run(tmp_path)[0]["metrics"]["train/denotation_accuracy"] == 0.25


@pytest.mark.long
def test_an_interrupt_does_not_wait_for_pending_replies(tmp_path):
    release = threading.Event()
    with serve(lambda *_: release.wait(60) or chat("[]")) as server:
        process = subprocess.Popen([*PROGRAM, *words(tmp_path, server)], stderr=subprocess.DEVNULL)
        while not server.bodies and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
        release.set()
    assert not (tmp_path / "out").exists()


def test_examples_of_the_prompt_are_drawn_from_train_by_seed_and_have_other_tables(tmp_path):
    sample = find_dataset("sample").open(tmp_path)
    train = sample.examples("train")

    def shots(seed, questions):
        model = LanguageModel("http://h/v1", "m", shots=2, seed=seed)
        bodies = [request.body for request in model.build_requests(questions, train, "i", "$question").values()]
        return [[message["content"] for message in body["messages"]] for body in bodies]

    dev = sample.examples("dev")[:5]
    assert shots(1, dev) == shots(1, dev) != shots(2, dev)
    without = [LanguageModel("http://h/v1", "m", seed=n).build_requests(dev, (), "i", "$question") for n in (1, 2)]
    for one, two in zip(*(requests.values() for requests in without), strict=True):
        assert one.body == two.body
        assert one.digest != two.digest, "each seed is asked anew"
    first = shots(1, dev)[0]
    assert len(first) == 6
    golds = {example.question: example.answer.texts[0] for example in train}
    assert json.loads(first[2]) == [golds[first[1]]]
    tables = {example.question: example.table.table_id for example in train}
    for example, (_, one, _, two, _, question) in zip(train, shots(1, train), strict=True):
        assert example.table.table_id not in (tables[one], tables[two])
        assert question == example.question


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["sqa", "wikisql", "tabfact", "sample"])
def test_every_data_set_about_tables_has_a_prompt(name, tmp_path):
    root = [f"data.root={WRITERS[name](tmp_path / name)}"] if name in WRITERS else ["prompt=hybridqa"]
    with serve(answer) as server:
        arguments = [word for word in words(tmp_path, server) if not word.startswith("data")]
        assert main([*arguments, f"data={name}", *root, "split=train", "system.shots=1"]) in (0, 2)
        assert all("$" not in message["content"] for body in server.bodies for message in body["messages"])
        assert [message["role"] for message in server.bodies[0]["messages"]][:1] == ["system"]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('["a [1]", 2]', ["a [1]", 2]),
        ('First ["x"], no: ["y"]', ["y"]),
        ("[not] a list", None),
        ("[[1]]", None),
        ("[" * 5000, None),
        ("", None),
    ],
)
def test_the_last_list_of_a_reply_is_its_answer(text, items):
    assert Reply(text, False, 1, 1, 0.0).find_items() == items


def test_training_does_not_take_a_language_model(capsys):
    arguments = ["experiment=hybridqa_pointr", "system=openai_compatible", "system.model=m"]
    assert main(["train", *arguments, "--dry"]) == 2
    assert "system: joins no stages" in capsys.readouterr().err
