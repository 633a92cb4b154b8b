"""Tensors in files: what ``save`` writes, ``load`` and PyTorch read; what would run code is refused."""

from __future__ import annotations

import base64
import io
import json
import pickle
import zipfile
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import cuplug
import numpy as np
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
    file.seek(0)
    last = cuplug.cuda.device_count() - 1
    assert cuplug.load(file, map_location=lambda storage, _: storage.cuda(last)).device.index == last
    file.seek(0)
    assert cuplug.load(file, map_location=lambda storage, _: storage.cpu()).is_cpu


def test_the_form_before_pytorch_1_6_is_written_too_one_after_the_other(device: str) -> None:
    content, file = _content(device), io.BytesIO()
    pickle.dump("before", file)
    cuplug.save(content, file, _use_new_zipfile_serialization=False)
    cuplug.save([Network(), cuplug.ones(2)], file, _use_new_zipfile_serialization=False)
    pickle.dump("behind", file)
    file.seek(0)
    assert pickle.load(file) == "before"
    found = cuplug.load(file)
    assert _alike(found, content)
    assert found["whole"].device == content["whole"].device
    found["row"].fill_(7)
    assert found["whole"][1].tolist() == [7, 7, 7, 7]
    assert isinstance(cuplug.load(file)[0], Network)
    assert pickle.load(file) == "behind"


def test_a_file_is_flushed_and_what_is_no_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tensors.pt"
    for new in (True, False):
        with path.open("wb") as file:
            cuplug.save(cuplug.arange(3), file, _use_new_zipfile_serialization=new)
            assert cuplug.load(path).tolist() == [0, 1, 2]
    for wrong in (cuplug.ones(2), np.zeros(3), [1]):
        with pytest.raises(AttributeError, match="expected 'f' to be string, path, or a file-like object"):
            cuplug.save("content", wrong)
    with pytest.raises(RuntimeError, match="nvidia0"):
        cuplug.load(path, "nvidia0")


def test_a_device_of_a_file_that_is_not_there_is_named_with_what_helps(running: str) -> None:
    file = io.BytesIO()
    cuplug.save(cuplug.ones(2), file)
    with zipfile.ZipFile(io.BytesIO(file.getvalue())) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b"\x03\x00\x00\x00cpu", b"\x06\x00\x00\x00cuda:9"))
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"deserialize object on (a )?CUDA device.*map_location"):
        cuplug.load(file)
    file.seek(0)
    assert cuplug.load(file, "cpu").tolist() == [1, 1]


def test_a_file_only_has_to_write_and_may_hold_something_before() -> None:
    class Written:
        def __init__(self) -> None:
            self.content = b""

        def write(self, part: bytes) -> int:
            self.content += part
            return len(part)

    for new in (True, False):
        written, file = Written(), io.BytesIO()
        cuplug.save(cuplug.arange(3), written, _use_new_zipfile_serialization=new)
        assert cuplug.load(io.BytesIO(written.content)).tolist() == [0, 1, 2]
        pickle.dump("before", file)
        cuplug.save(cuplug.arange(3), file, _use_new_zipfile_serialization=new)
        assert file.getvalue() == pickle.dumps("before") + written.content
        file.seek(0)
        pickle.load(file)
        assert cuplug.load(file).tolist() == [0, 1, 2]


def test_arguments_of_pickles_are_taken_where_they_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tensors.pt"
    cuplug.save(cuplug.arange(3), path, pickle, 4)
    cuplug.save(cuplug.arange(3), path, pickle_module=pickle, pickle_protocol=4)
    assert cuplug.load(path, "cpu", pickle).tolist() == [0, 1, 2]
    for call in (lambda: cuplug.save(1, path, pickle_module=json), lambda: cuplug.load(path, pickle_module=json)):
        with pytest.raises(ValueError, match=r"pickle_module=.* is not part of cuplug"):
            call()


def test_mmap_is_for_paths_as_torchs(tmp_path: Path) -> None:
    path = tmp_path / "tensors.pt"
    cuplug.save({"weight": cuplug.arange(3)}, path)
    assert cuplug.load(str(path), mmap=True)["weight"].tolist() == [0, 1, 2]
    with path.open("rb") as file, pytest.raises(ValueError, match="in order to use the mmap argument"):
        cuplug.load(file, mmap=True)


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
    file.seek(0)
    with pytest.raises(TypeError, match="not part of cuplug"):
        cuplug.load(file, weights_only=False)


def written_and_read(obj: Any, **options: Any) -> Any:
    file = io.BytesIO()
    cuplug.save(obj, file)
    file.seek(0)
    return cuplug.load(file, **options)


class Network(cuplug.nn.Module):
    """A module of a program's own, with a function of cuplug's among its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.activation = cuplug.nn.Linear(3, 4), cuplug.nn.functional.relu
        self.norm = cuplug.nn.BatchNorm1d(4)
        self.tied = self.first.weight

    def forward(self, x: Any) -> Any:
        return self.norm(self.activation(self.first(x)))


def test_a_whole_module_comes_back_with_its_parameters(running: str) -> None:
    net = Network()
    x = cuplug.randn(5, 3)
    expected = net(x)
    found = written_and_read(net)
    assert isinstance(found, Network)
    assert cuplug.equal(found.train()(x), expected)
    assert [name for name, _ in found.named_parameters()] == [name for name, _ in net.named_parameters()]
    assert all(isinstance(each, cuplug.nn.Parameter) and each.requires_grad for each in found.parameters())
    assert found.tied is found.first.weight
    frozen = cuplug.nn.Parameter(cuplug.ones(2), requires_grad=False)
    assert not written_and_read(frozen).requires_grad


def test_arrays_and_numbers_of_numpys_are_kept() -> None:
    arrays = [
        np.arange(6.0).reshape(2, 3).T,
        np.zeros((0, 2), np.int8),
        np.array(["ab", "c"]),
        np.array(2.5, np.float16),
    ]
    for array, found in zip(arrays, written_and_read(arrays), strict=True):
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)
    assert written_and_read([np.float64(2.5), np.int32(-4), b"bytes", {1}]) == [2.5, -4, b"bytes", {1}]
    with pytest.raises(TypeError, match="names numpy"):
        written_and_read(np.array([object()], object))


def _pickled(content: Any) -> io.BytesIO:
    """A file in PyTorch's form around a pickle that cuplug did not write."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, protocol=2))
    file.seek(0)
    return file


def test_arrays_and_numbers_in_numpys_own_pickles_are_read() -> None:
    arrays = [
        np.arange(6.0).reshape(2, 3).T,
        np.array([1, -2], ">i2"),
        np.zeros((0, 2), bool),
        np.array(["ab", "c"]),
        np.array(2.5, np.float16),
    ]
    for array, found in zip(arrays, cuplug.load(_pickled(arrays)), strict=True):
        expected = pickle.loads(pickle.dumps(array, protocol=2))  # the order of bytes is the machine's, too
        assert type(found) is np.ndarray
        assert (found.dtype, found.shape, found.strides) == (expected.dtype, expected.shape, expected.strides)
        np.testing.assert_array_equal(found, array)
        assert found.flags.writeable
    kinds = [np.dtype(name) for name in ("<f4", ">i2", "<U3", "S4", "?")]
    assert cuplug.load(_pickled(kinds)) == kinds
    assert np.dtype("i2").isnative  # numpy's own stay as they are
    number = cuplug.load(_pickled({"loss": np.float64(2.5)}))["loss"]
    assert (type(number), number) == (np.float64, 2.5)
    earlier = pickle.dumps(np.arange(3), protocol=2).replace(b"numpy._core.", b"numpy.core.")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", earlier)
    file.seek(0)
    assert cuplug.load(file).tolist() == [0, 1, 2]
    with cuplug.serialization.safe_globals([np.ndarray, np.dtype, np.zeros(1).__reduce__()[0]]):
        assert cuplug.load(_pickled(np.arange(3))).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "state",
    [
        (1, (3,), np.dtype("<f8"), False, b"12345678"),
        (1, (-1, -1), np.dtype("u1"), False, b"1"),
        (1, (True,), np.dtype("u1"), False, b"1"),
        (1, (1,), np.dtype("<f8"), False, [1.0]),
        (1, (1,) * 99, np.dtype("u1"), False, b"1"),
        (1, (1,), "<f8", False, b"12345678"),
        (1, (1,)),
    ],
)
def test_a_numpy_pickle_that_is_not_what_it_says_is_refused(state: Any) -> None:
    class Damaged:
        def __reduce__(self) -> Any:
            return (*np.zeros(1).__reduce__()[:2], state)

    with pytest.raises(ValueError, match=r"^load: (an array of NumPy's|the file is cut off or damaged)"):
        cuplug.load(_pickled(Damaged()))
    for array in (np.array([object()], object), np.zeros(2, "i4,f8"), np.zeros(2, "M8[s]")):
        with pytest.raises(TypeError, match=r"names numpy's dtype '(O8|V12|M8)', of which arrays are not read"):
            cuplug.load(_pickled(array))


class Settings:
    def __init__(self, rate: float) -> None:
        self.rate = rate


def test_other_classes_are_read_where_the_program_names_them() -> None:
    serialization = cuplug.serialization
    with pytest.raises(TypeError, match=r"Settings, which is not part of cuplug.*add_safe_globals"):
        written_and_read(Settings(0.5))
    with serialization.safe_globals([Settings]):
        assert written_and_read(Settings(0.5)).rate == 0.5
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([(Settings, f"{Settings.__module__}.Settings")])
    assert written_and_read(Settings(0.25)).rate == 0.25
    serialization.clear_safe_globals()
    with pytest.raises(TypeError, match="Settings"):
        written_and_read(Settings(0.5))


def test_what_pickle_cannot_write_is_refused() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        cuplug.save({"x": lambda: 1}, io.BytesIO())


@pytest.mark.parametrize(
    ("shape", "kind", "content"),
    [((2**40,), "<f8", b"12345678"), ((-1, -1), "|u1", b"1"), ((1,), "|O", b"12345678")],
)
def test_an_array_that_is_not_what_it_says_is_refused(shape: Any, kind: str, content: bytes) -> None:
    class Damaged:
        def __reduce__(self) -> Any:
            return np.ndarray, (shape, kind, content)

    with pytest.raises(ValueError, match="is not what the file holds"):
        written_and_read(Damaged())


@pytest.mark.parametrize("new", [True, False])
def test_a_file_stays_as_it_is_where_what_is_to_replace_it_cannot_be_written(tmp_path: Path, new: bool) -> None:
    path = tmp_path / "kept.pt"
    cuplug.save(cuplug.arange(3), path, _use_new_zipfile_serialization=new)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        cuplug.save([cuplug.arange(4), lambda: 0], path, _use_new_zipfile_serialization=new)
    assert cuplug.load(path).tolist() == [0, 1, 2]


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


_STREAM = zlib.decompress(
    base64.b85decode(
        "c-n1|O>fgc5Qe>LCjmoCp?sCkQlJf&D2*JaIkiHlmla>`#TR6`_BM94@@DLH1xS^AX+-%A960jV_z6fHn6*oxQdZuPJv)A%d1ov7)fT_M?fzOl"
        "{PAw3SJBr$O^nB2bp0j6Fs8XwGLj-V;(3wE3<wtZ3wR<@r34Rn7N=nb^ows}Qhl28ph!RS0?cEux_%3jMIv(rEk=D4ztT)Wn_0f4HDoq{4ztSg"
        "FOy*QBaleRJW6^&sZvqcLC*KfRK$VeSt0Y_XkY{FcKwbP$I5WR!EAo9cZCeqUX!%J@)xmY><kC)XmdE~JHwF+t-6nBT4EpVHwrrMnZYPCXK;y`"
        "jLhKjX@r&qj}$sC?6-N$a~{7+BV~jA!h<Ucu6nTGx3%Lk&v*=r2{x3N$z0&Iqya5ykjdx_t}~)}H%=3+x2)i%2e;~B9f)vJ!0krv%+pIL#kr+B"
        "{|N42+;`l*vjumNK#{OgTRDMyjGVyzM*V?;haNnt2cCrD03KfyuP3(Yo&#1d0Ja==j250CfFNK^15o>^4$m6Ea|P=jZ0I}upzm-_e`KB}oi{6!"
        "_o&e<Vvw`9YP)Uxzp8BvJNV$PaDU(V1I@Uz{r"
    )
)
"""What PyTorch 2.13 writes of four tensors with ``_use_new_zipfile_serialization=False``, as all did before 1.6."""


def test_a_file_of_old_pytorch_is_read_and_never_in_part() -> None:
    found = cuplug.load(io.BytesIO(_STREAM))
    assert found["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found["turned"].data_ptr() == found["x"].data_ptr()
    assert found["flags"].tolist() == [True, False]
    assert found["half"].tolist() == [1]
    assert found["half"].dtype is cuplug.bfloat16
    for length in range(0, len(_STREAM), 7):
        with pytest.raises(cuplug.CuplugError, match="load:"):
            cuplug.load(io.BytesIO(_STREAM[:length]))


def test_an_old_file_of_unknown_elements_is_refused() -> None:
    complex_ones = _STREAM.replace(b"ctorch\nFloatStorage\n", b"ctorch\nComplexFloatStorage\n")
    assert complex_ones != _STREAM
    with pytest.raises(ValueError, match=r"load: the file holds elements of torch\.ComplexFloatStorage"):
        cuplug.load(io.BytesIO(complex_ones))


@pytest.mark.needs_torch
@pytest.mark.parametrize("in_archive", [True, False])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_complex_elements_of_pytorchs_are_refused(kind: str, in_archive: bool) -> None:
    import torch

    file = io.BytesIO()
    torch.save(torch.ones(2, dtype=getattr(torch, kind)), file, _use_new_zipfile_serialization=in_archive)
    file.seek(0)
    with pytest.raises(ValueError, match=r"load: the file holds elements of torch\.Complex"):
        cuplug.load(file)


def test_storages_of_an_old_file_take_no_more_memory_than_it_is_long() -> None:
    longer = _STREAM.replace(b"K\x06N", b"J\x06\x00\x00\x70N", 1)
    assert longer != _STREAM
    with pytest.raises(ValueError, match="longer than it is"):
        cuplug.load(io.BytesIO(longer))


def test_tensors_of_an_old_file_go_where_they_are_wanted(running: str) -> None:
    assert cuplug.load(io.BytesIO(_STREAM), map_location="cuda")["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert cuplug.load(io.BytesIO(_STREAM), map_location="cuda")["x"].is_cuda


@pytest.mark.needs_torch
@pytest.mark.parametrize("protocol", [2, 4])
def test_an_old_file_of_layers_is_read(protocol: int) -> None:
    import torch

    file = io.BytesIO()
    layers = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    torch.save(layers.state_dict(), file, _use_new_zipfile_serialization=False, pickle_protocol=protocol)
    file.seek(0)
    found = cuplug.load(file)
    assert {name: each.tolist() for name, each in found.items()} == {
        name: each.tolist() for name, each in layers.state_dict().items()
    }


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
