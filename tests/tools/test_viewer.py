"""``cuplug-trace view``: a page on loopback takes files, shows their reports, and lays two over each other."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cuplug.tools.viewer import Viewer

from .commands.browser import CHROMIUM, Browser
from .made_snapshots import BASE, MIB, MadeSnapshot, saved, snapshot_of


def snapshot(path: Path, nbytes: int) -> Path:
    made = MadeSnapshot()
    for number in range(6):
        made.reserve(BASE + number * 256 * MIB, nbytes)
        made.allocate(BASE + number * 256 * MIB, nbytes, ("forward", "/home/u/model.py", 10 + number))
    return saved(path, snapshot_of(made))


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    made = Viewer()
    try:
        yield made
    finally:
        made.close()


def send(address: str, data: bytes, **headers: str) -> dict[str, Any]:
    request = urllib.request.Request(address, data, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        told: dict[str, Any] = json.load(answer)
        return told


def refusal(address: str, data: bytes, **headers: str) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as raised:
        send(address, data, **headers)
    with raised.value as error:
        return error.code, json.load(error)["error"]


def read(viewer: Viewer, path: str) -> str:
    with urllib.request.urlopen(urlsplit(viewer.address)._replace(path=path).geturl(), timeout=60) as answer:
        return str(answer.read().decode())


def test_a_file_that_is_sent_becomes_a_report_and_a_second_one_a_comparison(viewer: Viewer, tmp_path: Path) -> None:
    first, second = snapshot(tmp_path / "a.pickle", 20 * MIB), snapshot(tmp_path / "b.pickle", 40 * MIB)
    page = send(f"{viewer.address}files?name=a.pickle", first.read_bytes(), **{"X-Cuplug": "1"})["page"]
    assert "Memory of a.pickle" in read(viewer, page)
    both = send(f"{viewer.address}compare?of=0&name=b.pickle", second.read_bytes(), **{"X-Cuplug": "1"})["page"]
    text = read(viewer, both)
    assert "a and b" in text
    assert "forward (model.py:15)" in text
    assert "a.pickle" in read(viewer, urlsplit(viewer.address).path)


def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(viewer: Viewer) -> None:
    status, why = refusal(f"{viewer.address}files?name=..%2F..%2Fx.pickle", b"no pickle", **{"X-Cuplug": "1"})
    assert status == 400
    assert "x.pickle" in why
    assert "\n" not in why


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("files", {}, 403),  # a form on a page from elsewhere
        ("files", {"X-Cuplug": "1", "Host": "example.com"}, 403),  # a name made to lead here
        ("other", {"X-Cuplug": "1"}, 404),
    ],
)
def test_files_are_taken_from_its_own_pages_alone(
    viewer: Viewer, path: str, headers: dict[str, str], status: int
) -> None:
    assert refusal(viewer.address + path, b"x", **headers)[0] == status


def test_the_address_has_a_secret_part(viewer: Viewer) -> None:
    assert len(urlsplit(viewer.address).path) > 20
    with pytest.raises(urllib.error.HTTPError):
        read(viewer, "/")


def test_what_was_dropped_is_gone_when_it_ends(tmp_path: Path) -> None:
    viewer = Viewer(0, [str(snapshot(tmp_path / "a.pickle", 20 * MIB))])
    send(f"{viewer.address}files?name=b.pickle", (tmp_path / "a.pickle").read_bytes(), **{"X-Cuplug": "1"})
    folder = Path(viewer._folder.name)
    assert list(folder.rglob("b.pickle"))
    viewer.close()
    assert not folder.exists()


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_in_a_browser_a_file_is_dropped_and_another_on_its_report(viewer: Viewer, tmp_path: Path) -> None:
    drop = (
        "(() => {{ const data = new DataTransfer(); data.items.add(new File([Uint8Array.from(atob('{0}'), (c) =>"
        " c.charCodeAt(0))], '{1}'));"
        " document.dispatchEvent(new DragEvent('drop', {{ dataTransfer: data, bubbles: true }})) }})()"
    )
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(viewer.address, "window.cuplug_view")
        for name, nbytes, title in (("a.pickle", 20, "Memory of a.pickle"), ("b.pickle", 40, "a and b")):
            path = snapshot(tmp_path / name, nbytes * MIB)
            browser.run(drop.format(base64_of(path), name))
            browser.wait(f"document.title === {title!r} && window.cuplug && (cuplug.ready || cuplug.error)")
            assert browser.run("cuplug.error") is None
        assert browser.run("cuplug.views.length") == 2
        assert browser.errors == []
    finally:
        browser.close()


def base64_of(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
