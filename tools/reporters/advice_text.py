"""Prints what ``advise`` and ``fit`` found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from shlex import quote

from rich.console import Console
from rich.text import Text

from ..analysis.candidates import RMM_POOL
from ..analysis.findings import LITTLE, memory_option
from ..analysis.pytorch_settings import as_environment, in_pytorchs_words, needs_a_limit
from ..replaying.advice import Advice, JobAdvice, reserves_noticeably_less
from ..replaying.least_memory import Fit
from ..replaying.replayer import ReplayResult
from .replay_text import DRIVER_TIME, LONGER_THAN_THE_RUN, SHARE, calls_text
from .tables import Cell, Column, in_two_lines, print_notes, print_paragraph, print_table
from .units import NO_SHARE, driver_time, duration, events, share, size

_TIGHT = 0.05
"""Where less of the memory is to spare, it is called tight: the next run may ask for a little more."""
WIDE = 100
"""Columns from which on long names stand in one line of a table."""


def stay_with(choice: Advice | JobAdvice) -> str:
    """What to say where nothing reserves noticeably less than what the history ran on."""
    now = f"PyTorch's own allocator{_as_it_was_set(choice.ran_on)}" if choice.of_pytorch else choice.ran_on
    if isinstance(choice, Advice) and choice.ran_out:
        return f"Nothing that was tried reserves noticeably less than {now}, on which this ran out of memory."
    if isinstance(choice, Advice) and choice.of_pytorch and choice.memory is None:
        return f"Without a limit nothing that was tried reserves noticeably less than {now}, on which this ran."
    chosen = "no other that was tried" if choice.of_pytorch else "none that was tried"
    return f"Stay with {now}, on which this ran already: {chosen} reserves noticeably less."


def give_memory(advice: Advice) -> str:
    """What to say where no memory was given."""
    if advice.had is not None:
        return (
            f"Give --memory {memory_option(advice.had)}, what it had when it ran out: allocators behave differently "
            "near the limit."
        )
    size_of = "SIZE is the GPU's memory less 0.3 to 1 GiB for the CUDA context and the libraries" + (
        "; or, of PyTorch's error message, what is free, allocated and reserved but unallocated, added up."
        * advice.of_pytorch
        or "."
    )
    if not advice.of_pytorch or advice.ran_out:
        return f"Give --memory SIZE: allocators behave differently near the limit. {size_of}"
    events = advice.reference.events
    little = f"It is little history, {events} events. " if events < LITTLE else ""
    return (
        f"{little}No request failed in this file. If your job died, give --memory SIZE: allocators behave differently "
        f"near the limit, and the cause is told. {size_of}"
    )


def no_choice(advice: Advice) -> str:
    """What to say, and to do, where no choice of an allocator matters (``Advice.remedy``)."""
    had = f", {size(advice.had)}" if advice.had is not None else ""
    other = " To rank them for another device, give --memory SIZE." * (advice.memory is None)
    return f"No allocator or setting makes it fit into what it had{had}.{other} {advice.remedy}"


def rmm_pool_note(allocators: Iterable[str]) -> list[str]:
    """What the row of RMM's pool stands for, where there is one."""
    if all(one.partition(":")[0] != RMM_POOL for one in allocators):
        return []
    told = f"{RMM_POOL}: what RMM's pool_memory_resource would reserve, grown from nothing; for one that began larger"
    return [f"{told} add -a {RMM_POOL}:initial_pool_size=SIZE."]


BEYOND_THIS = "Beyond this, a device holds the CUDA context and the libraries: some 0.3 to 1 GiB, not counted."
"""What the figures of ``print_fits`` leave out."""

FOR_PYTORCH = "A PyTorch program needs cuplug beside it:  pip install '.[tools,torch]'"
"""What a PyTorch program needs before it can be put on cuplug's memory."""


def advice_as_dict(advice: Advice) -> dict[str, object]:
    """The advice for JSON."""
    best = advice.recommended
    in_program = None if advice.of_pytorch else best
    return {
        "trace": advice.trace,
        "note": advice.note,
        "memory_bytes": advice.memory,
        "duration_seconds": advice.duration,
        "peak_requested_bytes": advice.reference.peak_requested_bytes,
        "recommended": None if best is None else best.allocator,
        "program": None if in_program is None else _program(in_program),
        "environment": None if best is None else _environment(best, advice),
        **({"ran_on": advice.ran_on} if advice.ran_on else {}),
        "command": None if advice.under_pytorch is None else _command(advice.under_pytorch),
        "tried": [{**_figures(result), "risk": _risk(result, advice)} for result in advice.ranking],
        "left_out": advice.problems,
        **({"pytorch": as_environment(advice.pytorchs_own[1].allocator) or None} if advice.pytorchs_own else {}),
        "reference": _figures(advice.reference),
        **({"verdict": advice.verdict} if advice.verdict else {}),
        **({"layer": advice.layer} if advice.layer else {}),
        **({"cause": advice.cause} if advice.cause else {}),
        **({"ran_out": advice.ran_out} if advice.ran_out else {}),
        **({"on_host": asdict(advice.on_host)} if advice.on_host is not None else {}),
    }


def _figures(result: ReplayResult) -> dict[str, object]:
    """What follows from the history, and not from how fast this machine is."""
    measured = ("seconds", "events_per_second")
    return {name: figure for name, figure in result.as_dict().items() if name not in measured}


def print_advice(advice: Advice, console: Console, *, verbose: bool = False) -> None:
    """Print the ranking, where a choice matters, and what to do; where ``verbose``, the ranking in any case, and what
    is said of each failure."""
    reference = advice.reference
    limit = (
        f", on {size(advice.memory)} besides the CUDA context and the libraries" if advice.memory is not None else ""
    )
    time = f" in {advice.duration:.3f} s" if advice.duration else ", without times"
    print_paragraph(console, f"{advice.trace}: {events(reference.events)}{time}{limit}")
    if reference.devices > 1:
        print_paragraph(console, f"Figures are sums over {reference.devices} GPUs; --device shows one by itself.")
    if advice.note:
        print_paragraph(console, f"note: {advice.note}", style="yellow")
    if advice.settings:
        print_paragraph(console, f"recorded with PyTorch's settings {advice.settings}")
    if verbose or not advice.remedy:
        _print_ranking(advice, console, verbose=verbose)
    for told in filter(None, (advice.ran_out, advice.verdict, advice.cause)):
        print_paragraph(console, told, style="red" if told is not advice.cause or advice.fails else "")
    if advice.memory is None and not advice.remedy:
        print_paragraph(console, give_memory(advice))
    if advice.best is None:
        print_paragraph(
            console,
            "None completes this history: the device needs more memory (cuplug-trace fit says how much), or the "
            "program must hold less (cuplug-trace report shows what it holds).",
            style="bold",
        )
        if advice.on_host is not None and not advice.on_host.failure:
            print_paragraph(console, advice.on_host.sentence(), style="bold")
        return
    if advice.verdict and (advice.recommended is not None or advice.enough is not None):
        print_paragraph(console, "First stop that growth. What follows only puts it off:", style="bold")
    elif advice.recommended is not None and _fits_as_it_is(advice):
        print_paragraph(console, "This history fits as it is. To reserve less:", style="bold")
    _print_choice(advice, console)
    if any(one.served is not None and one.served.planned_bytes for one in advice.ranking):
        command = f"cuplug-trace plan {quote(advice.trace)} -o run.plan"
        console.print(Text(f"It repeats itself. A plan for its next run:  {command}", style="bold"), soft_wrap=True)


def _print_ranking(advice: Advice, console: Console, *, verbose: bool) -> None:
    """The table, and what must be known to read it."""
    reference = advice.reference
    known = [at for at in range(len(_COLUMNS)) if _COLUMNS[at] is not _SHARE or reference.run_seconds]
    known = known if advice.memory is not None else known[:-1]
    columns = [_COLUMNS[at] for at in known]
    rows = [
        [row[at] for at in known]
        for place, one in enumerate(advice.ranking, 1)
        for row in _rows(place, one, advice, fold=console.width < WIDE)
    ]
    notes = print_table(console, columns, rows)
    shares = [driver_time(one.driver_time_us, one.run_seconds)[1] for one in advice.ranking if not one.failure]
    if SHARE.note in notes and NO_SHARE in shares:
        notes.append(LONGER_THAN_THE_RUN)
    console.print()
    for result in advice.ranking:
        if result.failure and (verbose or result.shortage is None):
            print_paragraph(console, f"{_label(result.allocator, advice)}: {result.failure}", style="red")
    if not verbose and any(result.shortage is not None for result in advice.ranking):
        notes.append("Runs out at: the part of the history that went well; --verbose says what was short.")
    notes += rmm_pool_note(one.allocator for one in advice.ranking)
    for allocator, problem in advice.problems.items():
        print_paragraph(console, f"{allocator} {problem}")
    if not reference.failure and not advice.private:
        spent, part = driver_time(reference.driver_time_us, reference.run_seconds)
        print_paragraph(
            console,
            f"No allocator can reserve less than {reference.peak_requested_bytes} bytes "
            f"({size(reference.peak_requested_bytes)}), which the program holds at its peak. One call of the driver "
            f"for every block (direct) would come to {size(reference.peak_reserved_bytes)}, and take "
            f"{spent} in the driver{f' ({part} of the run)' if part != NO_SHARE else ''}.",
        )
    if advice.layer:
        print_paragraph(console, advice.layer)
    print_notes(console, notes)


def _print_choice(advice: Advice, console: Console) -> None:
    """What to run on, with the lines that select it."""
    chosen, cheaper, in_pytorch = advice.recommended, advice.cheaper, advice.under_pytorch
    if advice.remedy:
        print_paragraph(console, no_choice(advice), style="bold")
        return
    if chosen is None and advice.current is not None and not advice.current.failure:
        print_paragraph(console, stay_with(advice), style="bold")
    elif advice.enough is not None:
        setting = as_environment(advice.enough[1].allocator)
        name = "PYTORCH_ALLOC_CONF (before PyTorch 2.9: PYTORCH_CUDA_ALLOC_CONF)"
        _print_line(console, f"Set in the environment:  {setting}" if setting else f"Leave {name} unset.")
        if needed := needs_a_limit(advice.enough[1].allocator):
            print_paragraph(console, needed, style="bold")
    elif chosen is not None and advice.of_pytorch:
        _print_line(console, f"Use {chosen.allocator}:  {_command(chosen)}")
        _print_line(console, f"or in the environment:  {_environment(chosen, advice)}")
        _print_line(console, FOR_PYTORCH)
    elif chosen is not None:
        _print_line(console, f"Use {chosen.allocator}. In the program:  {_program(chosen)}")
        _print_line(console, f"or in its environment:  {_environment(chosen, advice)}")
    if cheaper is not None and advice.enough is None:
        than = chosen or advice.current
        assert than is not None  # cheaper than one of them
        print_paragraph(
            console,
            f"{cheaper.allocator} reserves {size(cheaper.peak_reserved_bytes)}, at most 2 % more, and spends "
            f"{duration(cheaper.driver_time_us)} in the driver rather than {duration(than.driver_time_us)}.",
        )
    if advice.enough is not None and chosen is not None:
        spare = f", {_spare(chosen, advice)}" if advice.memory is not None and chosen.devices == 1 else ""
        _print_line(console, f"Or on cuplug's memory ({size(chosen.peak_reserved_bytes)}{spare}):  {_command(chosen)}")
        _print_line(console, FOR_PYTORCH)
    if in_pytorch is not None and not advice.of_pytorch:
        _print_line(console, f"A PyTorch program, as it is:  {_command(in_pytorch)}")
        _print_line(console, FOR_PYTORCH)
    if advice.pytorchs_own is not None:
        print_paragraph(console, _pytorchs_own(*advice.pytorchs_own, advice))


def _print_line(console: Console, line: str) -> None:
    """A line to copy, which is not broken."""
    console.print(Text(line, style="bold"), soft_wrap=True)


_SHARE = replace(SHARE, rank=3)
_COLUMNS = (
    Column(""),
    Column("Allocator", left=True),
    Column("bytes", rank=4),
    Column("peak reserved"),
    Column("÷ requested", rank=1),
    replace(DRIVER_TIME, rank=2),
    _SHARE,
    Column("driver calls", left=True, rank=5),
    Column("risk of OOM", left=True),
)


def _rows(place: int, result: ReplayResult, advice: Advice, *, fold: bool) -> list[Sequence[Cell]]:
    """A line of the table; where ``fold``, two if the allocator's name is long."""
    if result.failure:
        cells = ["-", _label(result.allocator, advice), *["-"] * 6, _risk(result, advice)]
    else:
        cells = [
            str(place),
            _label(result.allocator, advice),
            str(result.peak_reserved_bytes),
            size(result.peak_reserved_bytes),
            f"{result.reserved_over_requested:.3f}",
            *driver_time(result.driver_time_us, result.run_seconds),
            calls_text(result.driver_calls),
            _risk(result, advice),
        ]
    row: list[Cell] = [Text(cell, style="red" if result.failure else "") for cell in cells]
    return in_two_lines(row, 1) if fold else [row]


def print_fits(trace: str, fits: Sequence[Fit], console: Console, called: Callable[[str], str] = str) -> None:
    """Print the least memory for each allocator, of each device by itself. ``called``: what a selection is called."""
    devices = list(dict.fromkeys(fit.device for fit in fits))
    if fits and fits[0].note:
        print_paragraph(console, f"note: {fits[0].note}", style="yellow")
    for device in devices:
        own = [fit for fit in fits if fit.device == device]
        name = f"{trace}, device {device}" if len(devices) > 1 else trace
        if not own[0].replays:  # nothing was tried, for the same reason for all
            print_paragraph(console, f"{name}: {own[0].failure}", style="red")
            console.print()
            continue
        print_paragraph(console, f"{name}: {own[0].peak_requested} bytes requested at the peak")
        print_table(console, _FIT_COLUMNS, [_fit_row(fit, called(fit.allocator)) for fit in own])
        for fit in own:
            if fit.failure:
                print_paragraph(console, f"{called(fit.allocator)}: {fit.failure}", style="red")
        console.print()


_FIT_COLUMNS = (
    Column("Allocator", left=True),
    Column("bytes", rank=3),
    Column("least memory"),
    Column("±"),
    Column("÷ requested"),
    Column("reserved without a limit", rank=1),
    Column("replays", rank=2),
)


def _fit_row(fit: Fit, name: str) -> list[Cell]:
    if fit.failure:
        return [Text(name, style="red"), "none", "", "", "", str(fit.peak_reserved), str(fit.replays)]
    return [
        name,
        str(fit.least),
        size(fit.least),
        size(fit.step),
        f"{fit.least / fit.peak_requested:.3f}" if fit.peak_requested else "",
        str(fit.peak_reserved),
        str(fit.replays),
    ]


def _label(allocator: str, advice: Advice) -> str:
    """An allocator as the table names it."""
    return in_pytorchs_words(allocator) if advice.of_pytorch else allocator


def _as_it_was_set(allocator: str) -> str:
    settings = as_environment(allocator).partition("=")[2]
    return f" as it was set ({settings})" if settings else ""


def _pytorchs_own(as_it_is: ReplayResult, best: ReplayResult, advice: Advice) -> str:
    own = f"PyTorch's own allocator{_as_it_was_set(as_it_is.allocator)}"
    if not as_it_is.failure and not reserves_noticeably_less(best, as_it_is):
        return (
            f"{own} reserves {size(as_it_is.peak_reserved_bytes)}; none of its settings that were tried "
            "(expandable_segments, max_split_size_mb, roundup_power2_divisions) reserves noticeably less."
        )
    now = "runs out of memory" if as_it_is.failure else f"reserves {size(as_it_is.peak_reserved_bytes)}"
    setting = as_environment(best.allocator)
    how = f"with {setting} (before PyTorch 2.9: PYTORCH_CUDA_ALLOC_CONF)" if setting else "without these settings"
    enough = ""
    if advice.enough is not None and not advice.verdict:
        tight = advice.memory is not None and best.devices == 1 and _spare_of(best, advice.memory) < _TIGHT
        enough = f", so that this setting is enough{f', but tight ({_spare(best, advice)})' if tight else ''}"
    needed = needs_a_limit(best.allocator) if advice.enough is None else ""
    return f"{own} {now}; {how} it would reserve {size(best.peak_reserved_bytes)}{enough}. {needed}".rstrip()


def _risk(result: ReplayResult, advice: Advice) -> str:
    if result.failure:
        return "fails" if result.shortage is None else f"runs out at {100 * result.shortage.done:.0f} %"
    if advice.memory is None:
        return "no limit given"
    if advice.verdict:
        return "high: what is live grows"
    if result.devices > 1:
        return "completes on each"
    return f"{'tight' if _spare_of(result, advice.memory) < _TIGHT else 'low'}: {_spare(result, advice)}"


def _fits_as_it_is(advice: Advice) -> bool:
    """Whether the program completes on the memory that was tried, with what it ran on, and not tightly."""
    now = advice.current
    if advice.memory is None or advice.ran_out or now is None or now.failure or now.devices > 1:
        return False
    return _spare_of(now, advice.memory) >= _TIGHT


def _spare_of(result: ReplayResult, memory: int) -> float:
    return 1 - result.peak_reserved_bytes / memory


def _spare(result: ReplayResult, advice: Advice) -> str:
    assert advice.memory is not None
    return f"{share(_spare_of(result, advice.memory))} spare"


def _program(result: ReplayResult) -> str:
    return f'cuplug.init(allocator="{result.allocator}")'


def _command(result: ReplayResult) -> str:
    return f"cuplug-trace run --torch -a {quote(result.allocator)} train.py"


def _environment(result: ReplayResult, advice: Advice) -> str:
    return f"{'CUPLUG_TORCH' if advice.of_pytorch else 'CUPLUG_ALLOCATOR'}={result.allocator}"
