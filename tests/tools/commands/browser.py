"""A headless Chromium, driven through its DevTools protocol over a pair of pipes. Needs nothing but the browser."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(
    filter(
        None, map(shutil.which, ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome", "chrome"))
    ),
    None,
)

# Chromium reads from descriptor 3 and writes to 4.
_PLACE_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execvp(sys.argv[3], sys.argv[3:])
"""

_END_OF_TRANSITIONS = """(() => {
  const running = document.getAnimations().filter((it) => it instanceof CSSTransition && it.playState !== 'finished');
  return Promise.allSettled(running.map((it) => it.finished)).then(() => running.length) })()"""
"""Waits for the transitions that run, and gives their number: other ones may begin when these end."""


class Browser:
    """One page. ``errors`` collects what the page threw, ``requests`` every address that it asked for."""

    def __init__(self, profile: Path, width: int = 1280, height: int = 900) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        command = [
sys.executable, "-c", _PLACE_PIPES, str(to_read), str(to_write), str(CHROMIUM), "--headless", "--no-sandbox",
            "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe",
            f"--user-data-dir={profile}", f"--window-size={width},{height}", "--hide-scrollbars",
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._loader = ""
        try:
            self._attach(width, height)
        except BaseException:
            self.close()
            raise

    def _attach(self, width: int, height: int) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], 60)[0]:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self._read, 1 << 20)
            if not data:
                raise RuntimeError("Chromium has gone")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(message["params"]["entry"]["text"])
        elif message.get("method") == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "assert"):
            self.errors.append(str(message["params"]["args"]))
        elif message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif message.get("method") == "Page.frameNavigated" and "parentId" not in message["params"]["frame"]:
            self._loader = message["params"]["frame"]["loaderId"]
        return message

    def run(self, code: str) -> Any:
        """The value of an expression in the page, waited for."""
        found = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def open(self, path: Path | str, ready: str, patience: float = 60) -> float:
        """Open a file and wait until ``ready`` holds. Returns the seconds that it took."""
        began = time.monotonic()
        begun = self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        if "errorText" in begun:
            raise RuntimeError(f"{path}: {begun['errorText']}")
        while begun.get("loaderId", self._loader) != self._loader:  # until then, the page before answers for this one
            self._next()
        self.wait(ready, patience)
        return time.monotonic() - began

    def wait(self, ready: str, patience: float = 60) -> None:
        """Wait until ``ready`` holds, also on the page that this one leads to."""
        until = time.monotonic() + patience
        while True:
            try:
                self.run(
                    f"new Promise((done, fail) => {{ const at = setInterval(() => {{ "
                    f"if ({ready}) {{ clearInterval(at); done() }} }}, 20); "
                    f"setTimeout(() => fail('not ready'), {patience * 1000}) }})"
                )
            except RuntimeError as error:  # the page was left meanwhile
                if time.monotonic() > until or not any(word in str(error) for word in ("navigated", "context")):
                    raise
            else:
                return

    def settle(self) -> None:
        """Wait until what has changed is drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def resize(self, width: int, height: int = 900) -> None:
        """Wait until the page has this size, and until the style's transitions to it have ended."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.wait(f"innerWidth === {width}")
        self.settle()
        while self.run(_END_OF_TRANSITIONS):
            self.settle()

    def key(self, name: str) -> None:
        text: dict[str, Any] = {"text": name} if len(name) == 1 else {}
        if name == "Enter":
            text = {"text": "\r", "windowsVirtualKeyCode": 13}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name)
        self.settle()

    def mouse(self, x: float, y: float, kind: str = "mouseMoved", **extra: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **extra)

    def screenshot(self, path: Path) -> None:
        data = self.call("Page.captureScreenshot", captureBeyondViewport=False)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        for end in (self._write, self._read):
            os.close(end)
        self.process.kill()
        self.process.wait()
