"""Speed, measured beside peers in one run: ``python tools/bench.py``.

A figure of one run means little on another machine; the ratios in the last columns are what to compare.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if __package__ in (None, ""):  # run as a script: take the same module from the installed package
    sys.path.pop(0)  # this folder, whose ``trace`` would stand before the standard library's
    sys.exit(importlib.import_module("cuplug.tools.bench").main())

from ..allocators.sizes import parse_size
from .benchmarks.timing import Timing, time_in_turn

_SIZES = (["1MiB"], ["512", "4KiB", "20KiB", "100KiB", "1MiB"])

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__)


@app.callback()
def _group() -> None:
    """Commands stay subcommands, also while there is only one."""


@app.command()
def alloc(
    size: Annotated[
        list[str] | None, typer.Option(help="bytes of an allocation, for example 1MiB; several are taken in turn")
    ] = None,
    driver: Annotated[str | None, typer.Option(help="driver of cuplug, for example sim")] = None,
    allocator: Annotated[str | None, typer.Option(help="allocator of cuplug")] = None,
    calls: Annotated[int, typer.Option(help="allocations in each round")] = 20_000,
    rounds: Annotated[int, typer.Option(help="rounds; the medians are over them")] = 15,
    cold: Annotated[
        bool, typer.Option("--cold", help="instead: a recorded history with emptied caches, and from threads of C")
    ] = False,
    history: Annotated[Path | None, typer.Option(help="the recorded history for --cold")] = None,
) -> None:
    """An allocation and its free at a cache hit: of one size, and of several in turn, as programs ask for them."""
    from ..runtime.machine.default_runtime import init
    from .benchmarks.allocation_speed import contenders

    init(driver=driver, allocator=allocator)
    if cold:
        _cold(history, min(calls, 2_000))
        return
    for sizes in [size] if size else _SIZES:
        found, missing = contenders([parse_size(each) for each in sizes])
        timings = time_in_turn(found, calls=calls, rounds=rounds)
        _print(f"allocation and free of {', '.join(sizes)} at a cache hit", timings, {})
    _print_missing(missing)


@app.command()
def tensor(
    size: Annotated[str, typer.Option(help="bytes of each operand of what memory bounds")] = "256MiB",
    device: Annotated[str | None, typer.Option(help="cuda or cpu; by default cuda where there is one")] = None,
    only: Annotated[str, typer.Option(help="measure the operations that have this in their names")] = "",
    rounds: Annotated[int, typer.Option(help="rounds; the medians are over them")] = 15,
) -> None:
    """Operations of tensors beside those of PyTorch, CuPy and NumPy: of large operands, and of 1,024 elements."""
    from .benchmarks.tensor_speed import cases

    found, missing = cases(parse_size(size), device)
    names = list(dict.fromkeys(name for case in found for name in case.contenders))
    table = _table(f"tensors of {size}", ("operation", "unit"), (*names, "of the best peer"), caption=machine())
    chosen = [case for case in found if only in case.name]
    try:
        for case in chosen:
            timings = time_in_turn(case.contenders, calls=case.calls, rounds=rounds)
            cells = [f"{case.figure(timings[name].median_ns):.2f}" if name in timings else "" for name in names]
            beside = _beside_peers({name: t.median_ns for name, t in timings.items()})
            table.add_row(case.name, case.unit, *cells, beside)
    except KeyboardInterrupt:
        missing["interrupted"] = f"{table.row_count} of {len(chosen)} rows were measured"
    Console(width=120).print(table)
    _print_missing(missing)


@app.command()
def operations(
    only: Annotated[str, typer.Option(help="measure the operations that have this in their names")] = "",
    size: Annotated[list[int] | None, typer.Option(help="numbers of elements; may be given several times")] = None,
    over: Annotated[float, typer.Option(help="show what takes longer than NumPy by more microseconds than this")] = 0,
    rounds: Annotated[int, typer.Option(help="rounds; the least times count")] = 15,
    beside: Annotated[str, typer.Option(help="numpy, or torch: then how many times PyTorch's time")] = "numpy",
) -> None:
    """Every operation of tensors on the CPU and on the simulator: how much longer it takes than NumPy's or PyTorch's.

    Beside PyTorch, of one thread, --over is a ratio.
    """
    from ..runtime.machine.default_runtime import init
    from .benchmarks.operation_cost import ROWS, SIZES, cost

    init(driver="sim")
    if beside == "torch":
        _operations_beside_torch(only, size or SIZES, over, rounds)
        return
    chosen = [(row, each) for row in ROWS if only in row.ours for each in size or SIZES if row.fits(each)]
    found = [cost(row, each, rounds=rounds) for row, each in chosen]
    figures = ("elements", "NumPy", *(found[0].more_us if found else ()))
    table = _table("microseconds beyond NumPy's", ("operation",), figures, no_wrap=True, caption=machine())
    for each in sorted(found, key=lambda each: -each.worst_us):
        if each.worst_us > over:
            more = [f"{time:+.1f}" for time in each.more_us.values()]
            table.add_row(escape(each.row.ours), f"{each.size:,}", f"{each.numpy_us:.1f}", *more)
    Console(width=120).print(table)
    least = sum(each.worst_us <= over for each in found)
    Console().print(f"{least} of {len(found)} take at most {over:g} us more than NumPy", highlight=False)


def _operations_beside_torch(only: str, sizes: Sequence[int], over: float, rounds: int) -> None:
    import torch

    from .benchmarks.operation_cost import ROWS, beside_torch
    from .benchmarks.torch_rows import TORCH_ROWS

    chosen = [(row, each) for row in (*ROWS, *TORCH_ROWS) if only in row.ours for each in sizes if row.fits(each)]
    tried = [beside_torch(row, each, torch, rounds=rounds) for row, each in chosen]
    found = sorted((each for each in tried if each is not None), key=lambda each: -max(each.times.values()))
    figures = ("elements", "PyTorch, us", *(found[0].times if found else ()))
    table = _table("times PyTorch's", ("operation",), figures, no_wrap=True, caption=machine())
    for each in found:
        if max(each.times.values()) > over:
            ratios = [f"{ratio:.2f}" for ratio in each.times.values()]
            table.add_row(escape(each.row.ours), f"{each.size:,}", f"{each.torch_us:.1f}", *ratios)
    Console(width=120).print(table)
    for name in found[0].times if found else ():
        ten, two = (sum(each.times[name] <= most for each in found) for most in (10, 2))
        Console().print(
            f"{name}: {ten} of {len(found)} take at most 10 times PyTorch's time, {two} at most twice", highlight=False
        )
    if len(found) < len(tried):
        Console().print(f"{len(tried) - len(found)} rows are not PyTorch's", highlight=False)


@app.command()
def programs(
    only: Annotated[str, typer.Option(help="measure the programs that have this in their names")] = "",
    rounds: Annotated[int, typer.Option(help="rounds; the medians are over them")] = 15,
) -> None:
    """Steps of small programs on the CPU and on the simulator: how many times the time of PyTorch on one thread."""
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # which NumPy has read already
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-m", "cuplug.tools.bench", *sys.argv[1:]], environment)
    import torch

    from ..runtime.machine.default_runtime import init
    from .benchmarks.small_programs import PLACES, PROGRAMS, beside_torch

    init(driver="sim")
    table = _table("times PyTorch's", ("a step of",), ("PyTorch, ms", *PLACES), no_wrap=True, caption=machine())
    for each in [beside_torch(name, torch, rounds=rounds) for name in PROGRAMS if only in name]:
        table.add_row(each.program, f"{each.torch_ms:.2f}", *(f"{ratio:.2f}" for ratio in each.times.values()))
    Console(width=120).print(table)


@app.command()
def launch(
    driver: Annotated[str | None, typer.Option(help="driver of cuplug, for example sim")] = None,
    calls: Annotated[int, typer.Option(help="launches in each round")] = 2_000,
    rounds: Annotated[int, typer.Option(help="rounds; the medians are over them")] = 15,
) -> None:
    """Launching a kernel of two arguments, and the first call of a kernel that no cache has seen."""
    from ..runtime.machine.default_runtime import init
    from .benchmarks.launch_speed import contenders, first_calls

    init(driver=driver)
    found, missing = contenders()
    _print("a launch of two arguments", time_in_turn(found, calls=calls, rounds=rounds), missing)
    found, missing = first_calls()
    _print("the first call of a small kernel", time_in_turn(found, calls=3, rounds=rounds), missing)


@app.command()
def record(
    driver: Annotated[
        str | None, typer.Option(help="driver of cuplug, for example cuda; by default no device is asked for memory")
    ] = None,
    allocator: Annotated[str | None, typer.Option(help="allocator of cuplug, with --driver")] = None,
    calls: Annotated[int, typer.Option(help="allocations in each round")] = 20_000,
    rounds: Annotated[int, typer.Option(help="rounds; the medians are over them")] = 9,
) -> None:
    """What recording an event in a trace costs. An allocation and its free are two events."""
    from ..runtime.machine.default_runtime import default_runtime, init
    from .benchmarks.recording_cost import contenders

    if driver is not None:
        init(driver=driver, allocator=allocator)
    found = contenders(None if driver is None else default_runtime().allocator(0))
    timings = time_in_turn(found, calls=calls, rounds=rounds)
    _print("an allocation and its free, recorded in a trace", timings, {})
    plain = 0.0
    for name, timing in timings.items():
        if name.endswith("unrecorded"):
            plain = timing.median_ns
        else:
            typer.echo(f"{name}: {max(timing.median_ns - plain, 0.0) / 2:,.0f} ns an event")


@app.command(name="torch")
def torch_training(
    workload: Annotated[
        list[str] | None, typer.Option(help="resnet, gpt2, llama, prefetch, graphs, ...; by default all eleven")
    ] = None,
    passes: Annotated[int, typer.Option(help="warm passes in each process; the medians are over them")] = 5,
    processes: Annotated[int, typer.Option(help="processes for each allocator, in turn with the others")] = 1,
    busy: Annotated[bool, typer.Option("--busy", help="while a Python thread computes")] = False,
    also: Annotated[
        list[str] | None, typer.Option(help="more of cuplug's allocators, for example caching:preset=torch")
    ] = None,
    held: Annotated[
        float | None, typer.Option(min=1.0, help="so many times what the program asks for is all the memory there is")
    ] = None,
) -> None:
    """Programs in PyTorch: its own allocator, its expandable segments, and cuplug under it. Needs a GPU."""
    from .benchmarks.torch_training import race
    from .benchmarks.torch_workloads import WORKLOADS

    title = "programs in PyTorch" + (" while a Python thread computes" if busy else "")
    title += f", held to {held} x what they ask for" if held is not None else ""
    console = Console(width=120)
    chosen = workload or list(WORKLOADS)
    for outcomes in race(chosen, passes=passes, processes=processes, busy=busy, also=also or [], held=held):
        figures = ("first s", "÷ PyTorch's", "warm s", "÷ PyTorch's", "reserved MiB", "÷ requested", "taken")
        table = _table(f"{outcomes[0].workload}: {title}; rounds: {outcomes[0].rounds}", ("allocator",), figures)
        for each in outcomes:
            if not each.requested:
                table.add_row(each.contender, "out of", "memory")
                continue
            times = [f"{each.cold:.3f}", f"{each.cold_ratio:.3f}", f"{each.warm:.3f}", f"{each.warm_ratio:.3f}"]
            bytes_ = [f"{each.reserved / 2**20:.0f}", f"{each.reserved / each.requested:.3f}", f"{each.taken:.0f}"]
            table.add_row(each.contender, *times, *bytes_)
        console.print(table)
    console.print(machine())


@app.command()
def train(
    network: Annotated[list[str] | None, typer.Option(help="resnet50, gpt2 or mlp; by default all")] = None,
    contender: Annotated[
        list[str] | None,
        typer.Option(help='torch or cuplug, and an allocator: "cuplug expandable", "torch expandable_segments"'),
    ] = None,
    devices: Annotated[str, typer.Option(help="CUDA devices for the batch to be divided among; or cpu")] = "1",
    rounds: Annotated[int, typer.Option(help="turns of each contender; the medians are over them")] = 8,
    steps: Annotated[int, typer.Option(help="steps in each turn")] = 5,
    small: Annotated[bool, typer.Option("--small", help="small networks, to try this out")] = False,
) -> None:
    """Training in cuplug beside PyTorch eager: a step's time, the host's part of it, and what is reserved."""
    from .benchmarks.training_speed import NETWORKS, race

    chosen = contender or ["torch", "cuplug", "cuplug expandable"]
    console = Console(width=120)
    for outcomes in race(network or NETWORKS, chosen, devices=devices, rounds=rounds, steps=steps, small=small):
        figures = ("step ms", "least", "most", f"÷ {chosen[0]}'s", "first queued ms", "reserved MiB")
        table = _table(f"{outcomes[0].network}: steps of training; rounds: {rounds}", ("contender",), figures)
        for each in outcomes:
            times = [f"{seconds * 1e3:.2f}" for seconds in (each.step, each.least, each.most)]
            table.add_row(
                each.contender,
                *times,
                f"{each.ratio:.3f}",
                f"{each.queued * 1e3:.2f}",
                f"{each.reserved / 2**20:.0f}",
            )
        console.print(table)
    console.print(machine())


@app.command()
def policy(
    history: Annotated[
        list[Path] | None, typer.Argument(help="recorded histories; by default those of a checkout")
    ] = None,
    allocator: Annotated[list[str] | None, typer.Option(help="caching, expandable, or both, the default")] = None,
    figure: Annotated[list[str] | None, typer.Option(help="figures to leave out; by default every one")] = None,
    value: Annotated[list[str] | None, typer.Option(help="NAME=BYTES: another value throughout")] = None,
    seeds: Annotated[int, typer.Option(help="perturbations of each history")] = 12,
    half: Annotated[str, typer.Option(help="only histories for choosing rules, or for judging them")] = "",
    kind: Annotated[str, typer.Option(help="only cases that have this in their kind, for example held")] = "",
    as_it_is: Annotated[
        bool, typer.Option("--as-it-is", help="leave nothing out: each kind of case by itself")
    ] = False,
    processes: Annotated[int, typer.Option(help="replays beside each other")] = 1,
) -> None:
    """What each figure of the strategies is worth: replays with it and without it.

    Of histories whole, three times in a row, small, held to little memory, repeated, both at once, and perturbed by
    seeds. The column calls counts the driver's calls in the last rounds of what repeats; passes, those in the second
    and third pass of whole histories.

    Figures that only the option host uses are left out of an allocator that has it, for example expandable:host=8GiB.
    """
    from ..allocators.constants import FIGURES
    from .benchmarks.policy_worth import cases, half_of, histories, outcomes, summary

    unknown = {*(figure or []), *(each.partition("=")[0] for each in value or [])} - set(FIGURES)
    if unknown:
        raise typer.BadParameter(f"there is no figure {min(unknown)}; there are: {', '.join(FIGURES)}")
    names = [name for name in histories(history or _bundled()) if not half or half_of(name) == half]
    chosen = [each for each in cases(names, seeds) if kind in each.kind]
    allocators = allocator or ["caching", "expandable"]
    left_out = [] if as_it_is else figure or list(FIGURES)
    values = {name: int(number) for name, _, number in (each.partition("=") for each in value or [])}
    found = [one for each in outcomes(chosen, allocators, left_out, processes, values) for one in each]
    console = Console(width=120)
    for name in allocators:
        own = [one for one in found if one.allocator == name]
        plain = [one for one in own if not one.figure]
        native = {one.case: one.ratio for one in found if one.allocator not in allocators}
        figures = ("", "short", "ratio", "worst", "> 1.10", "> native", "driver %", "calls", "passes")
        table = _table(f"{name}: as it is", ("cases",), figures, no_wrap=True)
        kinds = list(dict.fromkeys(one.case.kind for one in plain))
        for title in (*kinds, "all"):
            those = [one for one in plain if title in ("all", one.case.kind)]
            told = summary(those)
            above = sum(one.ratio > native[one.case] for one in those)
            shown = [f"{told.mean:.4f}", f"{told.worst:.3f}", f"{told.above}", f"{above}", f"{told.share:.2%}"]
            table.add_row(title, f"{told.count}", f"{told.failed}", *shown, f"{told.calls}", f"{told.passes}")
        console.print(table)
        ran_out = ", ".join(f"{one.case.history} ({one.case.kind})" for one in plain if not one.ratio)
        console.print(f"{name} ran out of memory on: {ran_out or 'none'}", highlight=False)
        if left_out:
            _print_worth(console, name, own)


def _print_worth(console: Console, name: str, own: Sequence[Any]) -> None:
    """A row for each figure that was left out: what that changes."""
    from ..allocators.constants import FIGURES
    from .benchmarks.policy_worth import worth

    plain = [one for one in own if not one.figure]
    figures = ("ratio %", "on one history", "driver %", "short", "calls", "held", "passes")
    caption = (
        "short: cases that run out of memory only without the figure (+) or only with it (-); the other columns are of "
        "those that end with and without it. calls: of the driver, in what repeats; held: the same on little memory; "
        "passes: in the second and third pass of whole histories"
    )
    table = _table(f"{name}: without a figure", ("figure", "value", "without"), figures, no_wrap=True, caption=caption)
    for figure in dict.fromkeys(one.figure for one in own if one.figure):
        told = worth(plain, [one for one in own if one.figure == figure])
        most = max(told.by_history, key=lambda one: abs(told.by_history[one]), default="")
        known = FIGURES[figure]
        table.add_row(
            figure,
            f"{known.value:,}",
            f"{known.without:,}" if known.without < 1 << 40 else "none",
            f"{told.ratio:+.2%}",
            f"{told.by_history.get(most, 0):+.2%} {most}",
            f"{told.share:+.3%}",
            f"+{told.lost} -{told.gained}",
            f"{told.calls:+}",
            f"{told.calls_held:+}",
            f"{told.passes:+}",
        )
    console.print(table)


def _bundled() -> list[Path]:
    """The recorded histories of a checkout; of an installed package the one that it brings."""
    root = Path(__file__).resolve().parent.parent
    folders = ("tools/data", "tests/data/traces", "tests/data/corpus")
    return sorted(path for folder in folders for path in root.glob(f"{folder}/*.pickle.xz"))


def _beside_peers(times: dict[str, float]) -> str:
    """How often as fast as the fastest peer cuplug is."""
    peers = [time for name, time in times.items() if name != "cuplug"]
    return f"{min(peers) / times['cuplug']:.2f}" if peers else ""


def machine() -> str:
    """The hardware and the versions that figures belong to, on one line."""
    from .. import cuda

    device = cuda.get_device_name(0) if cuda.is_available() else "no device"
    packages = []
    for name in ("cuplug", "numpy", "pycuda", "torch", "cupy-cuda13x", "numba-cuda", "rmm-cu13"):
        try:
            packages.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{device}; {platform.processor() or platform.machine()}; Python {platform.python_version()}; " + ", ".join(
        packages
    )


def _table(
    title: str, names: Sequence[str], figures: Sequence[str], *, no_wrap: bool = False, caption: str | None = None
) -> Table:
    """A table without rows: columns of names, then columns of figures."""
    table = Table(title=title, caption=caption, caption_justify="left")
    for column in names:
        table.add_column(column, no_wrap=no_wrap)
    for column in figures:
        table.add_column(column, justify="right")
    return table


def _print(title: str, timings: dict[str, Timing], missing: dict[str, str]) -> None:
    console = Console()
    peers = [name for name in timings if not name.startswith(("cuplug", "a bare"))]
    ours = [name for name in timings if name.startswith("cuplug")]
    figures = ("median ns", "least", "most", *(f"÷ {name.removeprefix('cuplug ')}" for name in ours))
    table = _table(title, ("contender",), figures, caption=machine())
    for name, timing in sorted(timings.items(), key=lambda item: item[1].median_ns):
        ratios = [f"{timing.median_ns / timings[own].median_ns:.2f}" for own in ours]
        times = [f"{value:.0f}" for value in (timing.median_ns, timing.least_ns, timing.most_ns)]
        table.add_row(name, *times, *ratios, style="bold" if name in ours else None)
    console.print(table)
    if not peers and ours:
        console.print("no peer is installed here: only cuplug was measured")
    _print_missing(missing)


def _cold(history: Path | None, calls: int) -> None:
    from .benchmarks.cold_allocations import cold, default_history, from_threads

    path = history or default_history()
    found, missing = cold(path, calls=calls)
    threaded, unthreaded = from_threads(path, calls=calls // 4)
    title = f"single allocations with cold caches, as in {path.name}"
    table = _table(title, ("contender",), ("median ns", "p99"), caption=machine())
    for name, spread in (found | threaded).items():
        table.add_row(name, f"{spread.median:.0f}", f"{spread.p99:.0f}")
    Console().print(table)
    _print_missing(missing | unthreaded)


def _print_missing(missing: dict[str, str]) -> None:
    for name, reason in missing.items():
        Console().print(f"left out: {name} ({reason})", highlight=False, markup=False)


def main() -> None:
    """The entry point of the script."""
    app()


if __name__ == "__main__":
    main()
