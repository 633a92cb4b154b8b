"""``cuplug-trace export``."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ...plugins.tracing.trace_in_memory import NO_DEVICE, Trace
from ..console import UsageError, progress, say
from ..foreign.chrome_trace import chrome_trace
from ..foreign.snapshot_writer import snapshot
from ..outputs import whole_output
from ..reporters.event_rows import write_dump
from ..reporters.parquet_table import write_parquet
from .options import OnlyDevice, TraceFile, load_one, one_of

_FORMS = {".json": "chrome", ".pickle": "pytorch", ".parquet": "parquet", ".csv": "csv"}

_complete_form = one_of(*_FORMS.values())


def export(
    file: TraceFile,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to.", metavar="FILE")],
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            help=f"{', '.join(_FORMS.values())}; by default as the output's ending says.",
            metavar="FORMAT",
            autocompletion=_complete_form,
        ),
    ] = None,
    device: OnlyDevice = None,
) -> None:
    """Write a trace for other tools: Chrome or Perfetto (.json), PyTorch's memory_viz (.pickle), .parquet, .csv."""
    chosen = form or _FORMS.get(output.suffix)
    if chosen is None or chosen not in _FORMS.values():
        raise UsageError(f"no format {form or output.suffix!r}: say --format with one of {', '.join(_FORMS.values())}")
    trace = load_one(file)
    if device is not None:
        trace = _of_device(trace, device)
    with progress(f"writing {output}"):
        _write(trace, output, chosen)
    say(f"{output} written, for {_READERS[chosen]}")


def _of_device(trace: Trace, device: int) -> Trace:
    """One device's events, and those of none."""
    if device not in trace.devices:
        known = ", ".join(map(str, trace.devices)) or "none"
        raise UsageError(f"{trace.path} has no events of device {device}; it has of: {known}")
    own = np.isin(trace.events["device"], (device, NO_DEVICE))
    fields = {**trace.header.fields, "older_events": int(np.count_nonzero(own[: trace.begin]))}
    return replace(trace, header=replace(trace.header, fields=fields), events=trace.events[own], kept={})


_READERS = {
    "chrome": "chrome://tracing or ui.perfetto.dev",
    "pytorch": "pytorch.org/memory_viz, or torch/cuda/_memory_viz.py",
    "parquet": "pandas, polars, DuckDB",
    "csv": "anything",
}


def _write(trace: Trace, output: Path, form: str) -> None:
    everything = np.arange(trace.begin, len(trace.events))
    if form == "parquet":
        with whole_output(output, binary=True) as binary:
            write_parquet(trace, everything, binary)
    elif form == "csv":
        with whole_output(output) as file:
            write_dump(trace, everything, "csv", file, lambda _more: None)
    elif form == "pytorch":
        with whole_output(output, binary=True) as binary:
            pickle.dump(snapshot(trace), binary, protocol=4)
    else:
        with whole_output(output, binary=True) as binary:
            for piece in chrome_trace(trace):
                binary.write(piece)
