"""What a person should know first of one device's history, and what to change, as sentences with figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from ...allocators.sizes import short_size
from ...allocators.statistics import SMALL_BLOCK
from .growth import Growth
from .idle_memory import Unused
from .sites import NO_STACK, Site
from .summarize import DeviceSummary


@dataclass(frozen=True)
class Finding:
    """``what`` was found and, where there is something to do, ``do``. The kind is ``bad``, ``note`` or ``good``."""

    kind: str
    what: str
    do: str = ""
    verdict: str = ""
    """The same in one short sentence; empty where it judges nothing."""
    no_help: bool = False
    """Whether no allocator would have helped: all that no block used was less than what was asked for."""
    limited: bool = False
    """Whether memory was refused though the device had it."""
    unused: Unused | None = None
    """Where what is not used lies, as far as that explains it."""
    memory: int | None = None
    """Bytes that there were when memory ran out; None where that is not known."""

    @property
    def told(self) -> str:
        """``what``, and where what is not used lies."""
        return f"{self.what} {self.unused.sentence()}".rstrip() if self.unused is not None else self.what


def verdict(found: Sequence[Finding]) -> str:
    """The most pressing of the findings as one short sentence; empty where none judges anything."""
    return next((one.verdict for one in found if one.verdict), "")


def findings(device: DeviceSummary, path: str, source: str = "") -> list[Finding]:
    """The findings, most pressing first. Sizes in the text are GiB or MiB, with the exact bytes where they matter.

    ``source``: which library's history it is.
    """
    if not device.has_history:
        held = f"{short_size(device.reserved.nbytes)} are reserved for {short_size(device.requested.nbytes)} asked for"
        return [Finding("note", _state(device), RECORD, f"At this moment {held}; what was before is not known.")]
    found: list[Finding] = []
    requested, reserved = device.requested.nbytes, device.reserved.nbytes
    top, leak = top_site(device), _leak(device)
    if leak is not None:
        found.append(Finding("bad", leak.sentence(), LEAK, leak.verdict()))
    if device.out_of_memory:
        found.append(ran_out(device, path))
    if device.growth is not None and leak is None:
        found.append(Finding("bad", device.growth.sentence()))
    if requested:
        when = f", {device.requested.seconds:.3f} s in" if device.timed else ""
        line = f"The program holds {requested} bytes ({short_size(requested)}) at its peak{when}."
        if top is not None:
            line += (
                f" {top.nbytes} bytes ({short_size(top.nbytes)}, {top.nbytes / requested:.1%}) of them, in "
                f"{top.blocks} blocks, were asked for at {top.where}."
            )
        found.append(Finding("note", line))
    if requested and not device.knows_reserved:
        found.append(Finding("note", "What was reserved from the device is not known: the history is of blocks alone."))
    if reserved and requested:
        ratio = reserved / requested
        line = f"{short_size(reserved)} are reserved from the device at most: {ratio:.2f} for 1 requested."
        found += _idle(device)
        why = device.unused_at_peak
        much = ratio > 1.15 and reserved - requested >= _SEGMENT
        if not much or why is None or not (why.whole or why.pieces):  # it is told already
            why = None
        if much and leak is not None:
            found.append(Finding("note", line, unused=why))  # it grows: another allocator only puts the end off
        elif much:
            sizes = f"{short_size(reserved)} for {short_size(requested)}"
            judged = f"It reserves {ratio:.2f} times what it asks for: {sizes}."
            # Where memory ran out, the advice for the device's size stands there.
            do = f"Try other allocators on this history: cuplug-trace advise {quote(path)}" * (not device.out_of_memory)
            idle = sum(why.whole) if why is not None else 0
            if do and idle > (reserved - requested) / 2:
                do = f"empty_cache() before then would give {short_size(idle)} back. {do}"
            found.append(Finding("bad", line, do, judged, unused=why))
        else:
            wasted = f"Little is wasted, {short_size(reserved - requested)}" * (ratio > 1.05)
            sizes = f"{short_size(reserved)} are reserved for {short_size(requested)} asked for"
            judged = f"{wasted or 'Hardly anything is wasted'}: {sizes}."
            found.append(Finding("good", line, "", judged))
    if source == "pytorch" and not device.out_of_memory:
        found.append(without_failure(device, path))
    found += _kept_at_end(device)
    if device.live_blocks:
        line = f"{device.live_blocks} blocks ({short_size(device.live_bytes)}) are never freed."
        first = device.sites_of_live[0] if device.sites_of_live else None
        if first is not None and first.where != NO_STACK:
            share = "Most were" if 2 * first.nbytes >= device.live_bytes else "The largest part was"
            line += f" {share} asked for at {first.where}."
        found.append(Finding("note", line))
    if not device.sites_at_peak and requested:
        line = "The trace has no call stacks, so that memory cannot be put down to lines of the program."
        do = "Record with cuplug-trace record --stacks python (PyTorch: _record_memory_history(stacks='python'))."
        found.append(Finding("note", line, do))
    return found


def ran_out(device: DeviceSummary, path: str) -> Finding:
    """Of a device on which a request failed: the first cause that applies, and what to do about it."""
    first, last, times = device.out_of_memory[0], device.out_of_memory[-1], len(device.out_of_memory)
    often = f"{times} time{'s' * (times > 1)}{', and the program went on' * last.went_on}"
    when = f" at {first.seconds:.3f} s" if device.timed else ""
    where = f" at {first.where}" if first.where else ""
    unused = max(first.reserved - first.active, 0)
    what = f"Out of memory{when} ({often}): {short_size(first.requested)} were asked for{where}. "
    if device.knows_reserved:
        what += f"{short_size(first.reserved)} were reserved then, of which {short_size(unused)} were unused"
        what += "." if first.free is None else f", and the device had another {short_size(first.free)} free."
    else:
        what += f"{short_size(first.active)} were in use then; what was reserved is not known."
    asked = f"It ran out of memory{when}, where {short_size(first.requested)} were asked for"
    if first.free is None:
        do = f"How much the device had free is not known. How much memory it takes: cuplug-trace fit {quote(path)}"
        return Finding("bad", what, do, f"{asked}.")
    limited = first.free >= _segment_of(first.requested)
    free = 0 if limited else first.free  # what lies beyond a limit serves nobody
    room, has = unused + free, first.reserved + free
    ending, do = _cause(device, path, room, free)
    if limited and LIMIT not in do:
        do = f"{do} {LIMIT}"
    grown = do.startswith(_GROWN)  # then what else would have served is beside the point
    lies = first.unused if not grown and room >= max(first.requested, _NOTABLE * has) else None
    return Finding("bad", what, do, asked + ending, room < first.requested, limited, lies, has)


def _cause(device: DeviceSummary, path: str, room: int, free: int) -> tuple[str, str]:
    """Why the first request that failed did so, as the end of a sentence, and what to do.

    ``room``: bytes that no block used, below the limit where there was one; ``free``: of them, what was not reserved.
    """
    first, last = device.out_of_memory[0], device.out_of_memory[-1]
    asked, has, fits = first.requested, first.reserved + free, room >= first.requested
    full = f"{short_size(first.active)} of {short_size(has)}"
    others = f"If the GPU has much more than {short_size(has)}, {_OTHERS}"
    if first.free is not None and first.free > free:
        others = LIMIT
        if not fits:
            return f" and the device had {short_size(first.free)} free: a limit, not fragmentation.", LIMIT
    leak = _leak(device)
    if leak is not None and leak.nbytes >= max(room, asked - room):
        return f": what is live had grown to {full}.", "Without that growth the request would fit."
    unused = first.unused or Unused()
    if room - unused.private < asked <= room:
        return f": {short_size(unused.private)} lay idle in private pools, which serve nothing else.", SHARE_POOLS
    if room < asked <= room + first.waiting:
        return f": {short_size(first.waiting)} were freed, but waited for other streams (record_stream).", WAIT_FIRST
    if last.kept and not last.went_on:
        return ", and nothing that was live then had been freed at the last try.", f"{_RETRY} {HOLD_LESS}"
    if fits and room >= _NOTABLE * has:
        piece = max([free, *unused.whole, *unused.pieces])
        if piece >= asked:
            return f" and {short_size(piece)} were free in one piece: too little once it is rounded up.", _ROUNDED_UP
        do = f"It was fragmentation: enough was free, but not in one piece. {others} {_RANK}"
        ending = f" and {short_size(room)} were free, but in pieces: fragmentation."
        return ending, f"{do} cuplug-trace advise {quote(path)} --memory {memory_option(has)}"
    most = ""
    if first.most is not None:
        share = "Most" if 2 * first.most.nbytes >= first.active else "The largest part"
        most = f" {share} of what it held then, {short_size(first.most.nbytes)}, was asked for at {first.most.where}."
    alone = " This request alone is for more than that." if asked > has else ""
    fit = f"How much memory the recorded part needs: cuplug-trace fit {quote(path)}"
    do = f"{alone} {HOLD_LESS}{most} {others} {fit}"
    if fits:
        return f" and {full} were in use: it is full.", f"The device is full: {full} were in use.{do}"
    return ": it needs more than there is.", f"The program itself needs more than there is, {short_size(has)}.{do}"


def _leak(device: DeviceSummary) -> Growth | None:
    """What grows while other memory comes and goes."""
    return device.growth if device.growth is not None and not device.growth.alone else None


def _segment_of(nbytes: int) -> int:
    """What PyTorch's allocator takes from the device for a request (``get_allocation_size``)."""
    if nbytes <= SMALL_BLOCK:
        return 2 << 20
    return _SEGMENT if nbytes < 10 << 20 else -(-nbytes >> 21) << 21


def without_failure(device: DeviceSummary, path: str) -> Finding:
    """Of a history of another library's in which no request failed: what to do where the job died all the same."""
    little = f"It is little history, {device.events} events. " if device.events < LITTLE else ""
    return Finding(
        "note",
        f"{little}No request of device {device.device} failed in this file.",
        f"If your job died, give the memory that it had: cuplug-trace advise {quote(path)} --memory SIZE",
    )


LITTLE = 100
"""Events below which a history is hardly one: a single step of a training has more."""

WAIT_FIRST = (
    "Let the block's stream wait for the other one (wait_stream) before it is freed, instead of record_stream; of "
    "collectives: TORCH_NCCL_AVOID_RECORD_STREAMS=1."
)
"""What to do about blocks that are freed and wait for other streams."""

SHARE_POOLS = "Let graphs share a pool (pool=graph.pool()), or capture the largest first."
"""What to do about the private pools of CUDA graphs."""

HOLD_LESS = "Hold less at the peak: smaller batches, recomputation, earlier frees; where nothing is trained, no_grad()."
"""What to do where the program needs more than there is."""

LIMIT = (
    "The device had enough free, and the request was refused all the same: look for a limit (PyTorch's "
    "set_per_process_memory_fraction, memory_limit of cuplug's allocators), or for another process that held the "
    "memory at that moment."
)
"""What to do where memory is refused that the device has."""

_RETRY = (
    "Nothing that was live at the first failure had been freed at the last. An exception that is still being handled "
    "keeps its frames, and their tensors: try again outside of the except block."
)
_ALONE = "what is freed on a stream serves that stream alone."
_OTHERS = "other processes and libraries hold the rest (nvidia-smi shows it)."
_ROUNDED_UP = (
    "Allocators take more than is asked for: PyTorch 20 MiB for less than 10 MiB, else multiples of 2 MiB, and more "
    "with roundup_power2_divisions; max_split_size_mb keeps large pieces whole. Leave such settings out, or hold less."
)
_GROWN = "Without that growth the request would fit."
_RANK = "To see which allocator or option would do, rank them:"

LEAK = (
    "Drop what is kept there: tensors in a list, in a cache or by a hook, losses that still have their graph (use "
    ".item() or .detach()), or a cycle of references. A larger device or another allocator only puts it off."
)
"""What to do about growth."""


def top_site(device: DeviceSummary) -> Site | None:
    """The site of most of what is held at the peak, as far as call stacks tell it."""
    return next((site for site in device.sites_at_peak if site.where != NO_STACK), None)


def _idle(device: DeviceSummary) -> list[Finding]:
    """For whom it is that memory lies idle when the most is reserved, as far as it serves nobody else."""
    idle = device.idle_at_peak
    if idle is None:
        return []
    found = []
    notable, reserved = _NOTABLE * device.reserved.nbytes, short_size(device.reserved.nbytes)
    if device.waiting_at_peak > notable:
        waits = short_size(device.waiting_at_peak)
        line = (
            f"{waits} are freed, but still wait for other streams (record_stream) when the most is reserved: they "
            "serve nobody until the work queued there has been done."
        )
        judged = f"{waits} of {reserved} are freed, but wait for other streams."
        found.append(Finding("bad", line, WAIT_FIRST, judged))
    nbytes, streams = idle.elsewhere(device.stream_at_peak)
    if nbytes > notable:
        where = f"lie idle in the pools of {streams} other stream{'s' * (streams > 1)}"
        line = f"{short_size(nbytes)} {where} when the most is reserved: {_ALONE}"
        do = (
            "Allocate on one stream, and use record_stream where another works with it; or call empty_cache() when a "
            "stream has done."
        )
        found.append(Finding("bad", line, do, f"{short_size(nbytes)} of {reserved} {where}."))
    pools = [pool for pool in device.pools if pool.reserved]
    if pools:
        kept, nbytes = sum(pool.reserved for pool in pools), sum(pool.idle for pool in pools)
        name = f"private pool {pools[0].name}" if len(pools) == 1 else f"{len(pools)} private pools"
        line = (
            f"The {name} keep{'s' * (len(pools) == 1)} {short_size(kept)}, of which {short_size(nbytes)} are idle when "
            "the most is reserved: they serve nothing else while the graph or pool lives."
        )
        judged = f"{short_size(nbytes)} of {reserved} lie idle in the {name}." if nbytes > notable else ""
        found.append(Finding("bad" if judged else "note", line, SHARE_POOLS, judged))
    return found


def _kept_at_end(device: DeviceSummary) -> list[Finding]:
    """What lies idle when the program ends, as far as ``empty_cache`` gives it back, and what keeps the rest."""
    idle = device.idle_at_end
    if idle is None or idle.nbytes <= _NOTABLE * device.reserved.nbytes:
        return []
    line = f"{short_size(idle.nbytes)} lie idle at the end; empty_cache() would give {short_size(idle.whole)} back."
    if device.unused_at_end is not None and device.unused_at_end.pin is not None:
        line += f" {device.unused_at_end.pin.sentence()}"
    return [Finding("note", line)]


_SEGMENT = 20 << 20
"""Bytes that PyTorch's allocator takes from the device at once for blocks below 10 MiB: to waste less says nothing."""

_NOTABLE = 0.05
"""The share of what is reserved from which on idle memory is worth a sentence of its own."""


RECORD = "Record a history: torch.cuda.memory._record_memory_history() before the work."
"""What to do where there is none."""


def state_alone(device: DeviceSummary) -> str:
    """What can be said of a device of which there is no history, only the state at one moment, and what to do."""
    return f"{_state(device)} {RECORD}"


def _state(device: DeviceSummary) -> str:
    told = (
        f"There is no history of device {device.device}, only the state at one moment: its peak, and the least memory "
        f"that it needs, are not known. {short_size(device.requested.nbytes)} were live then"
    )
    if device.idle_at_end is not None:
        told += (
            f", {short_size(device.reserved.nbytes)} reserved, {short_size(device.idle_at_end.nbytes)} of it idle; "
            f"empty_cache() would give {short_size(device.idle_at_end.whole)} back"
        )
    return f"{told}."


def memory_option(nbytes: int) -> str:
    """As an option takes it, rounded down to MiB."""
    return f"{nbytes >> 30}GiB" if not nbytes % (1 << 30) else f"{nbytes >> 20}MiB"
