"""Tensors in files: what ``save`` writes, ``load`` and PyTorch read; what would run code is refused."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import cuplug
import pytest

pytestmark = pytest.mark.one_schedule


def _content(device: str) -> dict[str, Any]:
    x = cuplug.arange(12.0, device=device).reshape(3, 4)
    return {
        "whole": x,
        "row": x[1],
        "turned": x.t(),
        "half": cuplug.ones(2, dtype=cuplug.bfloat16, device=device),
        "counters": cuplug.tensor([1, 2], device=device).to(cuplug.uint32),
        "rest": [1, 2.5, "text", None, (True,), OrderedDict(a=1), cuplug.float16, x.shape],
    }


def _alike(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, cuplug.Tensor):
        return bool(mine.equal(theirs)) and mine.dtype is theirs.dtype and mine.stride() == theirs.stride()
    if isinstance(mine, dict):
        return list(mine) == list(theirs) and all(_alike(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, (list, tuple)):
        return len(mine) == len(theirs) and all(map(_alike, mine, theirs))
    return bool(mine == theirs)


def test_what_is_saved_is_loaded(device: str, tmp_path: Path) -> None:
    content = _content(device)
    cuplug.save(content, tmp_path / "file.pt")
    found = cuplug.load(tmp_path / "file.pt")
    assert _alike(found, content)
    assert found["whole"].device == content["whole"].device
    found["row"].fill_(7)
    assert found["whole"][1].tolist() == [7, 7, 7, 7]  # they share memory, as they did


def test_tensors_go_where_they_are_wanted(running: str) -> None:
    file = io.BytesIO()
    cuplug.save(cuplug.ones(2), file)
    for where in (
        "cuda",
        cuplug.device("cuda"),
        {"cpu": "cuda:0"},
        lambda _, place: "cuda" if place == "cpu" else None,
    ):
        file.seek(0)
        assert cuplug.load(file, map_location=where).is_cuda
    file.seek(0)
    assert cuplug.load(file, map_location=lambda storage, _: storage).is_cpu


def test_there_is_one_form_of_file(running: str) -> None:
    file = io.BytesIO()
    cuplug.save([cuplug.ones(2)], file, _use_new_zipfile_serialization=True)
    file.seek(0)
    with pytest.raises(RuntimeError, match="nvidia0"):
        cuplug.load(file, "nvidia0")
    with pytest.raises(ValueError, match=r"before PyTorch 1\.6"):
        cuplug.save([cuplug.ones(2)], file, _use_new_zipfile_serialization=False)


def test_nothing_of_a_file_is_run() -> None:
    class Wicked:
        def __reduce__(self) -> Any:
            return print, ("run",)

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Wicked(), protocol=2))
    file.seek(0)
    with pytest.raises(TypeError, match="not part of cuplug"):
        cuplug.load(file)
    with pytest.raises(TypeError, match="cannot"):
        cuplug.save({"x": object()}, io.BytesIO())
    with pytest.raises(TypeError, match="run code"):
        cuplug.load(file, weights_only=False)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = io.BytesIO()
    cuplug.save(cuplug.ones(100), file)
    for content in (file.getvalue()[:200], b"", b"nothing of this kind", file.getvalue()[100:]):
        with pytest.raises(ValueError, match="load:"):
            cuplug.load(io.BytesIO(content))


def test_a_file_of_safetensors_is_read() -> None:
    data = cuplug.tensor([1.5, -2.0]).numpy().tobytes() + bytes([1, 0, 1])
    header = json.dumps(
        {
            "__metadata__": {"made": "by hand"},
            "x": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
            "flags": {"dtype": "BOOL", "shape": [3], "data_offsets": [8, 11]},
        }
    ).encode()
    found = cuplug.load(io.BytesIO(len(header).to_bytes(8, "little") + header + data))
    assert found["x"].tolist() == [[1.5], [-2.0]]
    assert found["flags"].tolist() == [True, False, True]


@pytest.mark.needs_torch
def test_pytorch_reads_what_is_saved_and_the_other_way_round() -> None:
    import torch

    file = io.BytesIO()
    cuplug.save(_content("cpu"), file)
    file.seek(0)
    found = torch.load(file, weights_only=True)
    assert found["turned"].tolist() == cuplug.arange(12.0).reshape(3, 4).t().tolist()
    assert found["half"].dtype is torch.bfloat16
    assert found["counters"].dtype is torch.uint32
    file = io.BytesIO()
    layer = torch.nn.Linear(2, 3)
    torch.save(layer.state_dict(), file)
    file.seek(0)
    state = cuplug.load(file)
    assert state["weight"].tolist() == layer.weight.tolist()
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    with pytest.raises(TypeError, match=r"torch\.nn"):
        cuplug.load(file)


@pytest.mark.parametrize("kind", ["uint16", "uint32", "uint64"])
def test_wide_unsigned_integers_are_held_and_computed_with(kind: str, device: str) -> None:
    import numpy as np

    most = 2 ** (8 * np.dtype(kind).itemsize) - 1
    array = np.array([0, 1, most], kind)
    x = cuplug.from_numpy(array).to(device)
    assert x.tolist() == array.tolist()
    np.testing.assert_array_equal(x.cpu().numpy(), array)
    assert (x + x).tolist() == [0, 2, most - 1]  # wraps around
    assert x.max().item() == most
    assert (x == most).tolist() == [False, False, True]
    assert x[:2].sum().dtype is cuplug.int64
    assert x[:2].to(cuplug.float32).tolist() == [0, 1]
    with pytest.raises(TypeError, match="no common type"):
        x + cuplug.tensor([1, 2, 3], device=device)
