"""A local server with the chat API of OpenAI, for tests. No real model answers."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class QuietServer(ThreadingHTTPServer):
    """A server that ignores clients that do not wait for their reply."""

    def handle_error(self, request, client_address):
        """Print nothing."""


class StandIn:
    """A server that replies to each question by a function.

    Args:
        reply: function from the text of the last message and the number of earlier requests with this text to a body,
            or a (status, headers, body).
    """

    def __init__(self, reply):
        self.reply, self.bodies, self.headers, self.lock = reply, [], [], threading.Lock()
        self.server = QuietServer(("127.0.0.1", 0), self.handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @property
    def questions(self):
        """The last message of each request."""
        return [body["messages"][-1]["content"] for body in self.bodies]

    def handler(self):
        """Return the class that handles the requests of this server."""
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = body["messages"][-1]["content"]
                with stand_in.lock:
                    before = stand_in.questions.count(text)
                    stand_in.bodies.append({**body, "path": self.path})
                    stand_in.headers.append(dict(self.headers))
                reply = stand_in.reply(text, before)
                status, headers, content = reply if isinstance(reply, tuple) else (200, {}, reply)
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in {"Content-Length": str(len(data)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                """Print nothing."""

        return Handler


def chat(text, *, refusal=None, finish="stop", usage=(100, 10)):
    """Return the body of a chat completion."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    tokens = dict(zip(("prompt_tokens", "completion_tokens"), usage, strict=True)) if usage else None
    return {"choices": [{"message": message, "finish_reason": finish}], "usage": tokens}


@contextmanager
def serve(reply):
    """Run a `StandIn` in a thread inside the context."""
    stand_in = StandIn(reply)
    thread = threading.Thread(target=stand_in.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield stand_in
    finally:
        stand_in.server.shutdown()
        stand_in.server.server_close()
