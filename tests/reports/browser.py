"""Drives a headless Chromium by its DevTools protocol over a pipe; the standard library is enough for that."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions"),
    *("--disable-dev-shm-usage", "--force-device-scale-factor=1", "--remote-debugging-pipe"),
)
# The protocol's pipes are the file descriptors 3 and 4 of the browser.
LAUNCH = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]
os.dup2(pipes[0], 3)
os.dup2(pipes[1], 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One page in one browser: what it logged is in `console`, what it asked the network for in `requests`."""

    def __init__(self, profile: Path) -> None:
        from_us, to_browser = os.pipe()
        from_browser, to_us = os.pipe()
        words = [CHROMIUM or "chromium", *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(from_us), str(to_us), *words],
            pass_fds=(from_us, to_us),
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(to_us)
        self.outbox, self.inbox = to_browser, from_browser
        self.pending, self.number, self.session, self.loaded = b"", 0, "", False
        self.console: list[str] = []
        self.requests: list[str] = []
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and returns its result; events that come before it are collected."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.outbox, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.note(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def receive(self) -> dict[str, Any]:
        while b"\0" not in self.pending:
            part = os.read(self.inbox, 1 << 20)
            if not part:
                raise RuntimeError("the browser has gone")
            self.pending += part
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def note(self, event: dict[str, Any]) -> None:
        """Keeps what a page must not do: errors and warnings it logs, requests it makes."""
        content = event.get("params", {})
        if event.get("method") == "Runtime.consoleAPICalled" and content["type"] in ("error", "warning", "assert"):
            self.console.append(json.dumps(content["args"]))
        elif event.get("method") == "Runtime.exceptionThrown":
            self.console.append(json.dumps(content["exceptionDetails"]))
        elif event.get("method") == "Log.entryAdded":
            self.console.append(content["entry"]["text"])
        elif event.get("method") == "Page.loadEventFired":
            self.loaded = True
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(content["request"]["url"])

    def open(self, file: Path, *, width: int = 1280, height: int = 900, dark: bool = False, wait: bool = True) -> None:
        """Opens a file in a window of this size and waits until it is drawn."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.console.clear()
        self.requests.clear()
        self.loaded = False
        self.send("Page.navigate", url=file.resolve().as_uri())
        while not self.loaded:
            self.note(self.receive())
        if wait:  # which takes scripts
            self.settle()

    def texts(self, selector: str) -> list[str]:
        """The texts of elements."""
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")

    def choose(self, name: str, value: str | bool, key: str = "value") -> None:
        """Sets a field as a reader does."""
        self.evaluate(
            f"(() => {{ const one = document.getElementById({json.dumps(name)}); one.{key} = {json.dumps(value)};"
            " one.dispatchEvent(new Event('input')); one.dispatchEvent(new Event('change')); })()"
        )
        self.settle()

    def settle(self) -> None:
        """Waits until the page has drawn what it was told to."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression, waiting for it when it is a promise."""
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Clicks the middle of an element with a real mouse."""
        box = self.evaluate(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)});"
            " one.scrollIntoView({block: 'center', behavior: 'instant'}); const box = one.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
        self.settle()

    def key(self, name: str) -> None:
        """Presses a key, such as `Enter` or `Tab`."""
        text = {"text": "\r"} if name == "Enter" else {"text": " "} if name == " " else {}
        code = {"Enter": 13, " ": 32, "Tab": 9}.get(name, 0)
        self.send("Input.dispatchKeyEvent", type="keyDown", key=name, windowsVirtualKeyCode=code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)
        self.settle()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.outbox)
        os.close(self.inbox)
