"""Writes events as Parquet, a group of rows at a time: texts, such as call stacks, are stored once in each group."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ...allocators.events import EventKind
from ...plugins.tracing.trace_in_memory import Trace
from ..console import UsageError
from .event_rows import ASKED, COLUMNS, KIND_NAMES

GROUP = 1 << 20
"""Rows in a group: as many are in memory at once."""

Numbers = npt.NDArray[Any]


def write_parquet(trace: Trace, places: npt.NDArray[np.int64], file: IO[bytes]) -> None:
    """Write the events at these places to an open file. Its columns are those of the other formats.

    Raises:
        UsageError: pyarrow is not installed.
        OSError: the file cannot be written.
    """
    try:
        pa: Any = import_module("pyarrow")
        pq: Any = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise UsageError("Parquet needs pyarrow: pip install 'cuplug[parquet]', or choose another --format") from None
    text = pa.dictionary(pa.int32(), pa.string())
    types = [pa.int64(), pa.int64(), text, pa.uint8(), pa.uint64(), pa.uint16(), pa.uint64(), pa.int64()]
    types += [pa.int64(), pa.uint32(), text, text, text]
    schema = pa.schema(list(zip(COLUMNS, types, strict=True)))

    def texts(numbers: Numbers, of: Callable[[int], str]) -> Any:
        """A column of texts, each of which is made and stored once."""
        known, index = np.unique(numbers, return_inverse=True)
        return pa.DictionaryArray.from_arrays(
            pa.array(index.astype(np.int32)), pa.array([of(number) for number in known.tolist()], pa.string())
        )

    with pq.ParquetWriter(file, schema) as writer:
        for start in range(0, len(places), GROUP):
            part = places[start : start + GROUP]
            events = trace.events[part]
            kinds, contexts = events["kind"], events["context"]
            marks = np.where(kinds == EventKind.MARKER, events["requested"], -1)
            asking = np.where(np.isin(kinds, ASKED), contexts.astype(np.int64), -1)
            made = {name: np.ascontiguousarray(events[name.removesuffix("_ns")]) for name in COLUMNS[1:10]}
            columns = {
                **{name: pa.array(column, schema.field(name).type) for name, column in made.items() if name != "kind"},
                "event": pa.array(part, pa.int64()),
                "kind": texts(kinds, KIND_NAMES.__getitem__),
                "name": texts(marks, lambda number: "" if number < 0 else trace.name(number)),
                "stack": texts(contexts, lambda number: " < ".join(map(str, trace.stack(number)))),
                "library": texts(asking, lambda number: "" if number < 0 else trace.library(number)),
            }
            writer.write_table(pa.table([columns[name] for name in COLUMNS], schema=schema))
