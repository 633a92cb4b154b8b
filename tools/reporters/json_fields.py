"""What the fields of the JSON mean that commands print with ``--json``, for the page of each command."""

from __future__ import annotations

_REPLAYED = {
    "trace": "the file",
    "allocator": "the selection that was replayed, as `-a` takes it",
    "events": "events of the history",
}
_TIMES = {
    "driver_time_us": "microseconds in the driver's memory calls, estimated from what each costs on an H200 "
    "(with `replay -d sim` or `-d cuda` measured)",
    "driver_time_share": "the same as a fraction of the recorded time; null where that is not known. More than 1 where "
    "the calls would take longer than what was recorded",
}
_RATIO = {"reserved_over_requested": "peak reserved as a multiple of peak requested; 1 is the least that is possible"}
_CALLS = {"driver_calls": "how often each call of the driver was made, or would have been"}
_FAILURE = {"failure": "why a replay or a search failed; empty where it did not"}
_NOTE = {"note": "what is missing in the file; empty where nothing is"}

JSON_FIELDS: dict[str, dict[str, str]] = {
    "compare": {
        **_REPLAYED,
        "allocator": "the selection, as `-a` takes it; empty for what was recorded",
        "requested": "bytes that the program asked for at its peak, summed over devices",
        "allocated": "the same as rounded by the allocator",
        "reserved": "bytes reserved from the device at the peak; null where nothing tells, in a log of RMM's, say",
        **_RATIO,
        **_CALLS,
        "out_of_memory": "requests that failed",
        **_TIMES,
        "run_seconds": "the recorded time, from the first event to the last; null for what was recorded, which has no "
        "time in the driver to compare with it, and where no times were recorded",
        **_FAILURE,
        **_NOTE,
    },
    "replay": {
        **_REPLAYED,
        "peak_requested_bytes": "bytes that the program asked for at its peak, summed over devices",
        "peak_allocated_bytes": "the same as rounded by the allocator",
        "peak_reserved_bytes": "bytes reserved from the device at the peak",
        **_RATIO,
        **_CALLS,
        **_TIMES,
        "out_of_memory_events": "requests that failed",
        "seconds": "how long the replay took on this machine",
        "events_per_second": "events replayed in a second",
        "peak_host_bytes": "of what was reserved, the most that was memory of the host; absent where that is none",
        "served": "what a plan served, and where the program left it; absent without one",
        "failure": "the first event that failed, and why; absent where none did",
        "note": "what is missing in the file; absent where nothing is",
    },
    "fit": {
        "trace": "the file",
        "allocator": "the selection that was replayed, as `-a` takes it",
        "device": "the device's ordinal: each is searched by itself",
        "least": "bytes of device memory on which a replay completes; 0 where none was found",
        "step": "on so many bytes less it does not complete",
        "peak_reserved": "bytes reserved without a limit",
        "peak_requested": "bytes that the program asked for at its peak",
        "replays": "how many replays the search took",
        **_FAILURE,
        **_NOTE,
        "on_host": "with `--memory`: how much of the host's memory is needed beside a device of that size",
    },
}
"""By command and field. Each command prints a list of such objects."""

AFTER: dict[str, str] = {
    "compare": "Of several histories, each allocator that completes all of them has one more object at the end, whose "
    "`trace` is `geometric mean`: all but `allocator` and `reserved_over_requested` is null in it."
}
"""What there is to say of a command's JSON besides."""
