"""Exchange of memory with other libraries, without copies: NumPy's protocols, DLPack, the CUDA Array Interface."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from functools import partial
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.tensor.core.dtypes import ALL, UNSIGNED
from cuplug.runtime.tensor.ops.arguments import dlpack

KINDS = [kind for kind in ALL if kind.name != "bfloat16"]


@pytest.mark.one_schedule
@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.name)
def test_numpy_round_trips_share_memory(kind: Any) -> None:
    array = np.arange(12).astype(kind.numpy).reshape(3, 4)
    x = cuplug.from_numpy(array)
    assert x.dtype is kind
    x[0, 0] = 1
    assert array[0, 0] == 1
    again = x.t().numpy()
    assert np.shares_memory(again, array)
    assert again.shape == (4, 3)
    np.testing.assert_array_equal(np.asarray(x), array)


@pytest.mark.one_schedule
def test_arrays_of_any_strides_become_tensors_and_keep_their_memory_alive() -> None:
    x = cuplug.from_numpy(np.arange(20.0)[::-3])
    gc.collect()
    assert x.tolist() == [19, 16, 13, 10, 7, 4, 1]
    assert (x + 0).tolist() == x.tolist()
    with pytest.warns(UserWarning, match="not writable"):
        x = cuplug.from_numpy(np.broadcast_to(np.float32(2), (3, 3)))
    assert x.sum().item() == 18
    with pytest.raises(TypeError, match="cannot hold"):
        cuplug.from_numpy(np.array(["a"]))
    with pytest.raises(TypeError, match="foreign byte order"):
        cuplug.from_numpy(np.zeros(2, ">f4"))
    with pytest.raises(ValueError, match="no multiples"):
        cuplug.from_numpy(np.zeros(4, [("a", "f4"), ("b", "i1")])["a"])


@pytest.mark.one_schedule
def test_numpys_functions_and_operators_work_with_cpu_tensors() -> None:
    x = cuplug.tensor([1.0, 4.0])
    assert np.sqrt(x).tolist() == [1, 2]
    assert isinstance(np.float32(2) * x, cuplug.Tensor)
    assert (x + np.array([1.0, 1.0], np.float32)).tolist() == [2, 5]
    with pytest.raises(TypeError):  # as in torch: whose result would it be?
        np.array([1.0, 1.0], np.float32) - x
    with pytest.raises(TypeError, match=r"from_numpy\(\) makes a tensor"):
        cuplug.add(x, np.array([1.0, 1.0], np.float32))  # type: ignore[arg-type]
    assert np.asarray(x, dtype=np.int32).tolist() == [1, 4]


def test_numpy_cannot_see_device_memory_and_is_told_so(torch: Any) -> None:
    x = torch.ones(3, device="cuda")
    with pytest.raises(TypeError, match=r"copy it with \.cpu\(\)"):
        x.numpy()
    with pytest.raises(TypeError, match=r"copy it with \.cpu\(\)"):
        np.asarray(x)
    assert x.numpy(force=True).tolist() == [1, 1, 1]


@pytest.mark.one_schedule
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.name != "bool"], ids=lambda kind: kind.name)
def test_dlpack_round_trips_with_numpy_share_memory(kind: Any) -> None:
    x = cuplug.arange(12).reshape(3, 4).to(kind)
    array = np.from_dlpack(x.t())
    assert array.shape == (4, 3)
    x[1, 2] = 77
    assert array[2, 1] == 77
    back = cuplug.from_dlpack(np.arange(6).astype(kind.numpy).reshape(2, 3)[:, ::2])
    assert back.dtype is kind
    assert back.tolist() == [[0, 2], [3, 5]]


@pytest.mark.one_schedule
@pytest.mark.parametrize("kind", [*ALL, *UNSIGNED], ids=lambda kind: kind.name)
def test_dlpack_round_trips_within_cuplug_for_every_type(kind: Any, device: str) -> None:
    x = cuplug.arange(6, device=device).reshape(2, 3).to(kind)
    y = cuplug.from_dlpack(x)
    assert y.dtype is kind
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()
    y.fill_(1)
    assert x.cpu().long().sum().item() == 6


@pytest.mark.one_schedule
def test_dlpack_keeps_memory_until_its_consumer_has_done_with_it(device: str) -> None:
    kept = len(dlpack._exported)
    x = cuplug.arange(5.0, device=device)
    y = cuplug.from_dlpack(x)
    assert len(dlpack._exported) == kept + 1
    del x
    gc.collect()
    assert y.tolist() == [0, 1, 2, 3, 4]
    del y
    gc.collect()
    assert len(dlpack._exported) == kept
    capsule = cuplug.ones(3, device=device).__dlpack__()
    assert len(dlpack._exported) == kept + 1
    del capsule  # nobody took what it holds
    gc.collect()
    assert len(dlpack._exported) == kept
    used = cuplug.ones(3, device=device).__dlpack__()
    first = cuplug.from_dlpack(used)
    with pytest.raises(TypeError, match="still to be used"):
        cuplug.from_dlpack(used)
    assert first.tolist() == [1, 1, 1]


@pytest.mark.one_schedule
def test_dlpack_takes_a_handle_as_a_stream_and_nothing_else(device: str) -> None:
    with pytest.raises(TypeError, match=r"^stream must be ``int`` or ``none``, not object"):
        cuplug.ones(3, device=device).__dlpack__(stream=object())
    assert cuplug.from_dlpack(cuplug.ones(3, device=device).__dlpack__(stream=-1)).tolist() == [1, 1, 1]


def test_dlpack_copies_when_it_is_asked_to(torch: Any) -> None:
    x = torch.arange(3.0, device="cuda")
    host = torch.from_dlpack(x.__dlpack__(dl_device=(1, 0)))
    assert host.is_cpu
    assert host.tolist() == [0, 1, 2]
    twin = torch.from_dlpack(x.__dlpack__(copy=True))
    assert twin.data_ptr() != x.data_ptr()
    for wrong in ({"dl_device": (1, 0), "copy": False}, {"dl_device": (10, 0)}):
        with pytest.raises(BufferError, match="takes a copy"):
            x.__dlpack__(**wrong)


def test_the_cuda_array_interface_is_version_3_with_the_current_stream(torch: Any) -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    found = x.__cuda_array_interface__
    assert found["version"] == 3
    assert (found["shape"], found["typestr"], found["strides"]) == ((2, 3), "<f4", None)
    assert found["data"] == (x.data_ptr(), False)
    assert found["stream"] == 1
    assert x.t().__cuda_array_interface__["strides"] == (4, 12)
    s = torch.cuda.Stream()
    with torch.cuda.stream(s):
        assert x.__cuda_array_interface__["stream"] == s.cuda_stream
    assert not hasattr(torch.ones(2), "__cuda_array_interface__")


class _Foreign:
    """Another library's array on a device."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__
        self.device = tensor.device


def test_other_libraries_device_arrays_become_tensors_in_the_same_memory(torch: Any) -> None:
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    y = torch.asarray(_Foreign(x))
    y[0, 0] = 50
    assert x[0, 0].item() == 50
    turned = torch.asarray(_Foreign(x.t()))
    assert turned.tolist() == x.t().tolist()


def test_a_foreign_array_made_on_another_stream_is_waited_for(torch: Any) -> None:
    for _ in range(5):
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            x = torch.zeros(2000, device="cuda") + 3
            foreign = _Foreign(x)
        y = torch.asarray(foreign)
        assert y.sum().item() == 6000
        x.record_stream(torch.cuda.current_stream())


def test_dlpack_orders_the_consumers_stream_after_the_producers(torch: Any) -> None:
    for _ in range(5):
        x = torch.zeros(2000, device="cuda") + 2
        s = torch.cuda.Stream()
        with torch.cuda.stream(s):
            y = torch.from_dlpack(x)
            total = y.sum().item()
        assert total == 4000


def test_record_stream_is_for_device_memory(torch: Any) -> None:
    with pytest.raises(TypeError, match="on the CPU"):
        torch.ones(2).record_stream(torch.cuda.current_stream())
    torch.zeros(0, device="cuda").record_stream(torch.cuda.current_stream())


@pytest.mark.needs_gpu
@pytest.mark.needs_torch
def test_pytorch_and_tensors_share_memory_both_ways(torch: Any) -> None:
    import torch as pytorch

    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    theirs = pytorch.from_dlpack(x.t())
    assert theirs.data_ptr() == x.data_ptr()
    theirs.add_(1)
    pytorch.cuda.synchronize()
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
    for mine in (torch.from_dlpack(theirs), torch.asarray(theirs)):
        assert mine.data_ptr() == theirs.data_ptr()
        assert mine.tolist() == theirs.tolist()
    half = pytorch.ones(3, dtype=pytorch.bfloat16, device="cuda")
    assert torch.from_dlpack(half).tolist() == [1, 1, 1]


@pytest.mark.needs_gpu
@pytest.mark.needs_cupy
def test_cupy_and_tensors_share_memory_both_ways(torch: Any) -> None:
    import cupy

    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    for theirs in (cupy.asarray(x), cupy.from_dlpack(x)):
        assert theirs.data.ptr == x.data_ptr()
        theirs += 1
        cupy.cuda.get_current_stream().synchronize()
    assert x.tolist() == [[2, 3, 4], [5, 6, 7]]
    back = cupy.arange(5, dtype=cupy.float32)
    for mine in (torch.asarray(back), torch.from_dlpack(back)):
        assert mine.data_ptr() == back.data.ptr
        assert mine.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.one_schedule
def test_tensors_are_arguments_of_kernels(torch: Any) -> None:
    source = """__global__ void fill(float *out, float value, long long n) {
        if (threadIdx.x < n) out[threadIdx.x] = value;
    }
    __global__ void answer(long long *out) { *out = 42; }"""
    try:
        module = torch.SourceModule(source)
        fill, answer = module.get_function("fill"), module.get_function("answer")
    except torch.CompileError as error:
        pytest.skip(str(error))
    launch = fill.prepare(1, 32)
    out = torch.zeros(8, device="cuda")
    for value in (1.0, 2.0, 3.0):  # at first in the way of all arguments, then as generated for these
        fill(out[3:], value, 2, grid=1, block=32)
        launch(out[6:], value, 1)
        assert out.tolist() == [0, 0, 0, value, value, 0, value, 0]
    # A tensor of one integer is an index to Python, but memory to a kernel.
    number = torch.zeros(1, dtype=torch.int64, device="cuda")
    answer(number, grid=1, block=1)
    assert number.item() == 42
    number.zero_()
    answer.prepare(1, 1)(number)
    assert number.item() == 42
    # To a parameter that is a number it is one.
    out.zero_()
    count = torch.tensor([2], device="cuda")
    for value in (1.0, 2.0, 3.0):
        launch(out, value, count)
        assert out.tolist() == [value, value, 0, 0, 0, 0, 0, 0]
    for call in (partial(fill, grid=1, block=1), launch):
        for _ in range(2):
            with pytest.raises(TypeError, match=r"parameter 0 \('out'.*host memory; copy it to the device"):
                call(torch.zeros(1), 1.0, 1)


def test_torchs_module_of_dlpack_gives_and_takes_capsules(device: str) -> None:
    from cuplug.utils.dlpack import from_dlpack, to_dlpack

    x = cuplug.arange(3.0, device=device)
    y = from_dlpack(to_dlpack(x))
    y[0] = 7
    assert x.tolist() == [7, 1, 2]
    assert cuplug.utils.dlpack.from_dlpack is from_dlpack


def test_an_object_that_shows_its_memory_by_dlpack_is_copied_as_a_whole(device: str) -> None:
    class Wrapped:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor

        def __dlpack__(self, **how: Any) -> Any:
            return self.tensor.__dlpack__(**how)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    x = cuplug.arange(3.0, device=device)
    y = cuplug.tensor(Wrapped(x))
    assert y.is_cpu
    assert cuplug.tensor(Wrapped(x), device=device, dtype=cuplug.int64, requires_grad=False).dtype is cuplug.int64
    y[0] = 7
    assert x.tolist() == [0, 1, 2]


def test_arrays_of_complex_numbers_are_refused_as_the_type_is() -> None:
    with pytest.raises(TypeError, match=r"complex64 is not part of cuplug"):
        cuplug.from_numpy(np.zeros(2, np.complex64))


def test_an_array_that_cannot_be_written_to_is_warned_of() -> None:
    array = np.zeros(2)
    array.flags.writeable = False
    with pytest.warns(UserWarning, match="The given NumPy array is not writable"):
        x = cuplug.from_numpy(array)
    with pytest.raises(ValueError, match="read-only"):
        x.add_(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (cuplug.ones(2) + array).tolist() == [1, 1]
        assert cuplug.tensor(array).tolist() == [0, 0]


def test_a_real_tensor_is_its_own_conjugate(device: str) -> None:
    x = cuplug.ones(2, device=device, requires_grad=True)
    assert x.conj() is x
    assert cuplug.conj(x) is x


def test_a_storage_counts_elements_of_the_tensors_type(device: str) -> None:
    x = cuplug.arange(6.0, device=device).reshape(2, 3).requires_grad_()
    row = x[1]
    storage = row.storage()
    assert len(storage) == storage.size() == 6
    assert (storage.nbytes(), storage.element_size(), storage.dtype) == (24, 4, cuplug.float32)
    assert storage.data_ptr() == x.data_ptr() == storage.untyped().data_ptr()
    storage[4] = 9
    assert row.tolist() == [3.0, 9.0, 5.0]
    assert storage.tolist() == list(storage) == [0.0, 1.0, 2.0, 3.0, 9.0, 5.0]
    assert repr(storage).startswith(" 0.0\n 1.0\n")
    assert (row.untyped_storage().size(), len(cuplug.ones(0).storage())) == (24, 0)
    with pytest.raises(AttributeError, match="'Storage' object has no attribute 'elsewhere'"):
        storage.elsewhere  # noqa: B018


def test_a_tensor_is_set_to_a_storage_of_elements_of_its_type(device: str) -> None:
    x = cuplug.arange(3.0, device=device)
    made = cuplug.ones(1, device=device).set_(x[1:].storage())
    x[0] = 5
    assert made.tolist() == [5.0, 1.0, 2.0]
    with pytest.raises(TypeError, match=r"set_: the elements are of cuplug.int64, and those given of cuplug.float32"):
        cuplug.tensor([1], device=device).set_(x.storage())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_a_storage_of_elements_is_copied(copied: Any, device: str) -> None:
    x = cuplug.arange(3.0, device=device)
    made = copied(x.storage())
    assert (made.tolist(), made.dtype, made.nbytes()) == ([0.0, 1.0, 2.0], cuplug.float32, 12)
    made[0] = 7
    assert x[0].item() == (7 if copied is copy.copy else 0)
