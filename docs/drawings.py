"""The documentation's diagrams: tables of those that are chains or rows, and a function for each other one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from charts import Card

__all__ = ["DRAWINGS"]

_Row = list[tuple[float, str, str]]
"""Boxes side by side: width, text, colour."""


def _row(card: Card, x: float, y: float, boxes: _Row, height: float = 30) -> None:
    for width, text, colour in boxes:
        card.box(x, y, width, height, text, colour)
        x += width


def _chain(title: str, steps: list[tuple[str, str]], width: int = 150) -> str:
    """Boxes from left to right with arrows between them."""
    gap = 30
    card = Card(24 + len(steps) * width + (len(steps) - 1) * gap, 86, title)
    for number, (text, colour) in enumerate(steps):
        x = 12 + number * (width + gap)
        card.box(x, 14, width, 58, text, colour)
        if number:
            card.arrow(x - gap + 2, 43, x - 2, 43)
    return card.svg()


def _rows(title: str, rows: list[tuple[str, _Row]], foot: str = "", width: int = 700) -> str:
    """Bars of memory below each other, each with a caption."""
    card = Card(width, 24 + len(rows) * 58 + (16 if foot else 0), title)
    for number, (caption, boxes) in enumerate(rows):
        card.text(12, 24 + number * 58, caption)
        _row(card, 12, 31 + number * 58, boxes)
    if foot:
        card.text(12, 24 + len(rows) * 58, foot, size=11)
    return card.svg()


_CHAINS: dict[str, tuple[Any, ...]] = {
    "three-answers": ("From a snapshot to the line to change",
        [("snapshot.pickle", "none"), ("summary|what holds it", "used"), ("report|one page", "used"),
         ("advise|what would have|done", "new")]),
    "bridge": ("PyTorch on cuplug's memory",
        [("train.py|as it is", "none"), ("torch.cuda|CUDAAllocator", "none"), ("the bridge|C++ subclass", "used"),
         ("caching or|expandable", "new")]),
    "pycuda": ("A PyCUDA program without a GPU",
        [("program.py|as it is", "none"), ("import pycuda|finds the stand-in", "used"), ("CUDA C becomes C++", "used"),
         ("simulator:|checks every access", "new")]),
    "kernels": ("From CUDA C to a launch",
        [("CUDA C", "none"), ("names, parameters", "used"), ("NVRTC, or C++|on the simulator", "used"),
         ("cache folder", "idle"), ("launch", "new")],
        126),
    "watching": ("Watch a run",
        [("record|writes events", "used"), ("run.cuplug", "idle"), ("watch|terminal or page", "new"),
         ("/metrics|for Prometheus", "none")]),
    "kit": ("An allocator, from the first line to the table",
        [("your class", "none"), ("the kit|every rule", "used"), ("compare|recorded histories", "used"),
         ("a table|to cite", "new")]),
    "installing": ("What a machine needs",
        [("Python 3.10 or later", "used"), ("C++ compiler:|the fast core", "idle"), ("NVIDIA GPU:|.[cuda]", "idle"),
         ("PyTorch:|.[torch]", "idle")]),
}  # fmt: skip
"""What ``_chain`` draws, by name: title, steps, and a width other than the usual."""

_ROWS: dict[str, tuple[Any, ...]] = {
    "fragmentation": ("Enough is free, and not in one piece",
        [
            ("segments as the program left them: 13 GiB are reserved or taken, 2.93 GiB of that lie idle",
             [(120, "used", "used"), (40, "", "idle"), (170, "used", "used"), (30, "", "idle"), (110, "used", "used"),
              (50, "", "idle"), (150, "", "none")]),
            ("the next block needs 1.47 GiB in one piece: no idle piece is that long", [(130, "1.47 GiB", "bad")]),
        ],
        "Numbers of the run in 'A run that ends out of memory'."),
    "caching": ("caching: segments, cut and joined again",
        [
            ("a segment from the driver", [(420, "one segment", "idle")]),
            ("blocks are cut from its front; a free piece is joined with free neighbours",
             [(110, "block", "used"), (80, "free", "idle"), (120, "block", "used"), (110, "free", "idle")]),
            ("idle as a whole: goes back before new memory is taken", [(420, "given back", "none")]),
        ]),
    "planned": ("planned: every block of an iteration has its place",
        [
            ("iteration 1 is recorded",
             [(90, "a", "used"), (60, "b", "new"), (120, "c", "plan"), (70, "d", "other")]),
            ("places are worked out once: what never lives together may share",
             [(120, "a, then c", "plan"), (90, "b, then d", "other")]),
            ("iteration 2 and on: the same places, no call of the driver",
             [(120, "a, then c", "plan"), (90, "b, then d", "other")]),
        ]),
    "module-memory": ("Which layer holds the memory",
        [
            ("forward: each layer saves its activations",
             [(90, "conv1", "used"), (140, "layer1", "used"), (180, "layer2", "used"), (110, "head", "used")]),
            ("checkpoint(layer2): saved no more, computed again in the backward pass",
             [(90, "conv1", "used"), (140, "layer1", "used"), (30, "", "idle"), (110, "head", "used")]),
        ]),
    "resting": ("A program that repeats itself comes to rest",
        [
            ("first iteration: pages are made and moved", [(150, "calls of the driver", "bad"), (60, "", "idle")]),
            ("second: some", [(50, "", "bad"), (160, "", "idle")]),
            ("from the fourth on: none", [(210, "the same places", "new")]),
        ]),
}  # fmt: skip
"""What ``_rows`` draws, by name: title, captions with their bars, and a foot."""


def layers() -> str:
    card = Card(700, 190, "Where cuplug stands")
    card.box(12, 14, 220, 40, "your program", "none")
    card.box(240, 14, 220, 40, "PyTorch, CuPy, Numba, …", "none")
    card.box(468, 14, 220, 40, "cuplug-trace", "plan")
    card.box(12, 74, 448, 40, "allocator: one string", "new")
    card.box(468, 74, 220, 40, "a trace: every event", "used")
    card.box(12, 134, 220, 40, "CUDA driver", "idle")
    card.box(240, 134, 220, 40, "simulator", "idle")
    card.arrow(122, 54, 122, 73)
    card.arrow(350, 54, 350, 73)
    card.arrow(122, 114, 122, 133)
    card.arrow(350, 114, 350, 133)
    card.arrow(460, 94, 467, 94)
    card.arrow(578, 74, 578, 55)
    return card.svg()


def which() -> str:
    card = Card(700, 200, "Which allocator?")
    card.box(12, 76, 150, 48, "start with|caching", "used")
    for number, (when, name) in enumerate(
        (("memory is short, or sizes change", "expandable"), ("each step asks for the same", "planned"),
         ("a phase ends all at once", "bump"), ("who frees what?", "direct"))
    ):  # fmt: skip
        y = 10 + number * 47
        card.arrow(164, 100, 232, y + 20)
        card.text(240, y + 24, when)
        card.arrow(452, y + 20, 508, y + 20)
        card.box(514, y, 150, 38, name, "new")
    return card.svg()


def expandable() -> str:
    card = Card(700, 150, "expandable: pages follow the blocks")
    card.text(12, 22, "addresses: a range that is as long as anybody wants")
    _row(
        card,
        12,
        30,
        [(120, "block", "used"), (80, "no page", "none"), (160, "block", "used"), (240, "no page", "none")],
    )
    card.text(12, 92, "pages of physical memory: what no block needs is mapped where one does")
    _row(card, 12, 100, [(60, "page", "idle")] * 5)
    card.arrow(42, 99, 42, 62)
    card.arrow(102, 99, 102, 62)
    card.arrow(162, 99, 240, 62)
    card.arrow(222, 99, 300, 62)
    card.arrow(282, 99, 440, 62, "next block")
    return card.svg()


def host_pages() -> str:
    card = Card(700, 150, "host pages: where the device has no room, the host's memory stands under its addresses")
    card.text(12, 22, "addresses of the device: what kernels are given")
    _row(card, 12, 30, [(160, "weights", "used"), (160, "gradients", "used"), (260, "states of the optimiser", "plan")])
    card.text(12, 92, "pages")
    _row(card, 12, 100, [(320, "the device's memory", "idle"), (260, "the host's, over the bus", "other")])
    card.arrow(92, 99, 92, 62)
    card.arrow(252, 99, 252, 62)
    card.arrow(462, 99, 462, 62)
    return card.svg()


def streams() -> str:
    card = Card(700, 150, "A block that two streams use")
    card.text(12, 40, "stream A")
    card.text(12, 100, "stream B")
    card.box(90, 20, 110, 30, "write block", "used")
    card.box(330, 20, 70, 30, "free", "idle")
    card.box(230, 80, 160, 30, "read block", "new")
    card.box(500, 20, 150, 30, "used again", "used")
    card.arrow(200, 40, 250, 78, "wait_stream")
    card.arrow(392, 95, 500, 52, "record_stream")
    return card.svg()


def schedules() -> str:
    into, kernel, out = (110, "copy in", "used"), (110, "kernel", "new"), (110, "copy out", "other")
    early = (110, "copy out", "bad")
    return _rows(
        "The same program under three schedules",
        [
            ("eager: each operation at once", [into, kernel, out]),
            ("lazy: only what somebody waits for", [early, into, kernel]),
            ("random: any legal order, and again from its seed", [into, early, kernel]),
        ],
        "Where a wait is missing, some schedule reads before the write: found, and found again.",
    )


def sleep() -> str:
    card = Card(700, 130, "Memory that sleeps")
    card.text(12, 30, "device")
    card.text(12, 100, "host")
    card.box(90, 10, 140, 32, "weights", "used")
    card.box(300, 10, 140, 32, "no pages", "none")
    card.box(510, 10, 140, 32, "weights", "used")
    card.box(300, 80, 140, 32, "weights", "host")
    card.arrow(230, 36, 300, 86, "sleep")
    card.arrow(440, 86, 510, 40, "wake")
    return card.svg()


def several() -> str:
    card = Card(700, 150, "One job, several processes")
    for number in range(4):
        card.box(12, 8 + number * 35, 120, 28, f"rank {number}", "bad" if number == 3 else "used")
        card.arrow(134, 22 + number * 35, 238, 75)
    card.box(242, 50, 180, 50, "summary job/|report job/", "none")
    card.arrow(424, 75, 498, 75)
    card.box(502, 50, 186, 50, "the worst, the spread,|rank 3 leaks", "new")
    return card.svg()


def tensors() -> str:
    card = Card(700, 128, "A tensor is a view of a block")
    _row(card, 12, 20, [(60, str(number), "used") for number in range(6)])
    card.text(390, 40, "storage: one block of the allocator")
    _row(card, 12, 80, [(60, "0 1 2", "new"), (60, "3 4 5", "new")])
    card.text(150, 100, "reshape(2, 3): the same bytes, shape (2, 3), stride (3, 1)")
    card.arrow(42, 78, 42, 52)
    card.arrow(102, 78, 222, 52)
    return card.svg()


def races() -> str:
    card = Card(700, 120, "A barrier is missing")
    card.text(12, 34, "thread 31")
    card.text(12, 88, "thread 32")
    card.box(100, 12, 190, 34, "tile[31] = x[31]", "used")
    card.box(330, 12, 190, 34, "x[31] = tile[32]", "bad")
    card.box(400, 66, 190, 34, "tile[32] = x[32]", "used")
    card.arrow(470, 66, 440, 47, "read before it is written")
    return card.svg()


def texture() -> str:
    card = Card(700, 130, "A texture is read between its texels")
    for number in range(4):
        card.box(12 + number * 60, 16, 60, 44, str(number * 4), "used" if number in (1, 2) else "idle")
    card.arrow(132, 96, 132, 62)
    card.text(142, 100, "tex2D at the middle between two texels, filter linear: half of each")
    return card.svg()


def libraries() -> str:
    card = Card(700, 140, "One pool for the whole process")
    for number, name in enumerate(("PyTorch", "CuPy", "Numba", "RMM", "PyCUDA")):
        card.box(12 + number * 137, 12, 126, 32, name, "none")
        card.arrow(75 + number * 137, 44, 75 + number * 137, 72)
    card.box(12, 74, 674, 34, "cuplug: one allocator, the same streams, a trace that tells who asked", "new")
    return card.svg()


DRAWINGS: dict[str, Callable[[], str]] = {
    **{name: partial(_chain, *told) for name, told in _CHAINS.items()},
    **{name: partial(_rows, *told) for name, told in _ROWS.items()},
    **{
        draw.__name__.replace("_", "-"): draw
        for draw in (
            layers, which, expandable, host_pages, streams, schedules, sleep, several, tensors, races,
            texture, libraries,
        )
    },
}  # fmt: skip
