"""Ask a language model what `mate data export` wrote, for `mate evaluate answers=...`; go on where it was stopped."""

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path
from string import Template
from urllib.request import Request, urlopen

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("files", type=Path, nargs=3, help="questions.jsonl answers.jsonl prompt.txt")
parser.add_argument("--model", required=True, help="of the server; without one a folder or a name on the hub")
parser.add_argument("--server", help="such as http://localhost:8000/v1; the key is read from OPENAI_API_KEY")
parser.add_argument("--tokens", type=int, default=256, help="of a reply")
options = parser.parse_args()
questions, answers, prompt = options.files

if options.server is None:
    from transformers import pipeline

    generate = pipeline("text-generation", model=options.model)
key = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}", "Content-Type": "application/json"}


def ask(prompt: str) -> str:
    """Return the reply to a prompt."""
    messages = [{"role": "user", "content": prompt}]
    if options.server is None:
        given = messages if generate.tokenizer.chat_template else prompt
        made = generate(given, max_new_tokens=options.tokens, do_sample=False, return_full_text=False)
        return made[0]["generated_text"]
    body = {"model": options.model, "messages": messages, "temperature": 0, "max_tokens": options.tokens}
    with urlopen(Request(f"{options.server}/chat/completions", json.dumps(body).encode(), key), timeout=600) as reply:
        return json.load(reply)["choices"][0]["message"]["content"] or ""


def read_list(reply: str) -> list[str]:
    """Return the JSON list in a reply, else the reply as one text."""
    try:
        return [str(item) for item in json.loads(reply[reply.index("[") : reply.rindex("]") + 1])]
    except ValueError:
        return [reply.strip()]


def write_text(value: object) -> str:
    """Write what a question has under a name: texts, or passages, one below the other."""
    parts = value if isinstance(value, list) else [value]
    return "\n".join(part["text"] if isinstance(part, dict) else str(part) for part in parts)


lines = answers.read_text().splitlines(keepends=True) if answers.exists() else []
whole = [line for line in lines if line.endswith("\n")]
answers.write_text("".join(whole))  # without a line that was cut off
done = {json.loads(line)["id"] for line in whole}
with answers.open("a") as file, questions.open() as asked:
    for question in filter(lambda one: one["id"] not in done, map(json.loads, asked)):
        texts = {name: write_text(value) for name, value in question.items() if name not in ("table", "row_numbers")}
        reply = ask(Template(prompt.read_text()).substitute(defaultdict(str, texts)))
        file.write(json.dumps({"id": question["id"], "answer": read_list(reply), "reply": reply}) + "\n")
        file.flush()
