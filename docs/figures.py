"""Makes the figures, tables and charts of the documentation: ``python docs/figures.py``.

``figures/histories.json`` has what replays of the recorded histories give, ``figures/measured.json`` what was measured
on GPUs, each with its card, versions and command. Tables and charts are made of these two and of nothing else;
``tests/docs/test_figures.py`` replays the first and makes the others anew.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

from charts import bars  # noqa: E402
from drawings import DRAWINGS  # noqa: E402

HISTORIES = {
    "resnet_multiscale": ("ResNet-50 training, several resolutions", 8_667_529_216, 6_117_392_384),
    "gpt2_varlen": ("GPT-2, sequences of 64 to 1,024 tokens", 18_052_284_416, 14_050_918_400),
    "gpt2_fixed": ("GPT-2 training, every step the same", 8_910_798_848, 8_774_483_968),
    "llama_ckpt": ("Llama shape, activation checkpointing", 12_119_441_408, 10_364_125_184),
    "llm_decode": ("decoding with a growing KV cache", 1_818_230_784, 1_388_314_624),
    "stream_prefetch": ("ResNet-18, prefetch on a side stream", 4_359_979_008, 2_527_068_160),
    "serving": ("serving, KV tensors of random lifetimes", 941_621_248, 843_055_104),
}
"""What each history is, and the bytes that PyTorch 2.11 reserved on an H200: natively, and with expandable segments."""

REPLAYED = ("caching:preset=torch", "caching", "expandable")
NATIVE, SEGMENTS = "PyTorch native", "PyTorch expandable"


def path_of(name: str) -> Path:
    """Where a history lies in the repository."""
    folder = ROOT / "tools" / "data" if name == "resnet_multiscale" else ROOT / "tests" / "data" / "traces"
    return folder / f"{name}.pickle.xz"


def replayed(name: str) -> dict[str, Any]:
    """What replays of one history give: sizes in bytes, shares of the recorded time."""
    from cuplug.tools.replaying.one_replay import Work, run

    found: dict[str, Any] = {}
    for allocator in REPLAYED:
        result = run(Work(str(path_of(name)), allocator)).result
        found["requested"] = result.peak_requested_bytes
        found["seconds"] = round(result.run_seconds, 3)
        found[allocator] = {
            "reserved": result.peak_reserved_bytes,
            "driver_us": round(result.driver_time_us, 1),
        }
    return found


def ratios(stored: dict[str, Any]) -> dict[str, dict[str, float]]:
    """By history and allocator: bytes reserved for one requested, at the peaks."""
    found = {}
    for name, (_, native, segments) in HISTORIES.items():
        one = stored[name]
        reserved = {NATIVE: native, SEGMENTS: segments, **{each: one[each]["reserved"] for each in REPLAYED[1:]}}
        found[name] = {each: nbytes / one["requested"] for each, nbytes in reserved.items()}
    return found


def means(stored: dict[str, Any]) -> dict[str, float]:
    """The geometric mean over the histories, by allocator."""
    each = ratios(stored).values()
    return {name: prod(one[name] for one in each) ** (1 / len(HISTORIES)) for name in (NATIVE, SEGMENTS, *REPLAYED[1:])}


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first row has the titles."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]]) + "\n"


def policy_table() -> str:
    """The figures that the strategies' rules rest on, as both forms have them."""
    from cuplug.allocators.constants import FIGURES, UNITS

    words = {"PART": "1/{}", "TIMES": "{} times", "COUNT": "{}", "MIB": "{} MiB", "GIB": "{} GiB"}
    owners = {"both": "`caching`, `expandable`"}
    rows = [["figure", "allocator", "value", "meaning"]]
    for figure in FIGURES.values():
        value = words[figure.unit].format(f"{figure.value // UNITS[figure.unit]:,}")
        rows.append([figure.name, owners.get(figure.strategy, f"`{figure.strategy}`"), value, figure.meaning])
    return table(rows)


def made(stored: dict[str, Any], measured: dict[str, Any]) -> dict[str, str]:
    """Every file that is made of figures, and every drawing, by its path below ``docs``."""
    each, mean = ratios(stored), means(stored)
    rows = [["history", NATIVE, SEGMENTS, "`caching`", "driver", "`expandable`", "driver"]]
    for name, (title, *_) in HISTORIES.items():
        shares = [stored[name][one]["driver_us"] / 1e6 / stored[name]["seconds"] for one in REPLAYED[1:]]
        cells = [f"{each[name][one]:.3f}" for one in (NATIVE, SEGMENTS, *REPLAYED[1:])]
        rows.append([title, *cells[:3], f"{100 * shares[0]:.2f} %", cells[3], f"{100 * shares[1]:.2f} %"])
    cells = [f"**{mean[one]:.3f}**" for one in (NATIVE, SEGMENTS, *REPLAYED[1:])]
    rows.append(["geometric mean", *cells[:3], "", cells[3], ""])
    four = {
        "PyTorch's native allocator": NATIVE, "PyTorch's expandable segments": SEGMENTS,
        "cuplug `caching`": "caching", "cuplug `expandable`": "expandable",
    }  # fmt: skip
    titles = ["allocator", "bytes reserved per byte requested"]
    small = [titles, *([title, f"{mean[one]:.3f}"] for title, one in four.items())]
    files = {
        "figures/histories.md": table(rows),
        "figures/means.md": table(small),
        "figures/constants.md": policy_table(),
        "pictures/histories.svg": bars(
            "Bytes reserved for each byte requested, at the peaks (1 is the least that is possible)",
            {HISTORIES[name][0]: values for name, values in each.items()},
            base=1.0,
            form="{:.3f}",
        ),
        "pictures/means.svg": bars(
            "Bytes reserved for each byte requested: geometric mean over seven recorded histories",
            {title.replace("`", ""): {"reserved ÷ requested": mean[one]} for title, one in four.items()},
            base=1.0,
            form="{:.3f}",
        ),
    }
    for name, chart in measured.items():
        files[f"pictures/{name}.svg"] = bars(chart["title"], chart["groups"], form=chart.get("form", "{:g}"))
    for name, draw in DRAWINGS.items():
        files[f"pictures/{name}.svg"] = draw()
    return files


def stored_figures() -> tuple[dict[str, Any], dict[str, Any]]:
    """What lies in ``figures``: of replays, and measured."""
    folder = DOCS / "figures"
    histories = json.loads((folder / "histories.json").read_text("utf-8"))
    return histories["histories"], json.loads((folder / "measured.json").read_text("utf-8"))


def main() -> None:
    """Replay, and write everything. With the argument ``drawn`` only what is made of stored figures."""
    if sys.argv[1:] != ["drawn"]:
        text = {
            "made by": "python docs/figures.py",
            "recorded": "PyTorch 2.11.0 on an NVIDIA H200, driver 580.159.04; the driver's time is estimated per call",
            "histories": {name: replayed(name) for name in HISTORIES},
        }
        (DOCS / "figures" / "histories.json").write_text(json.dumps(text, indent=1) + "\n", "utf-8")
    for name, text in made(*stored_figures()).items():
        (DOCS / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
