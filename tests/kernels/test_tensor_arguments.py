"""Tensors and arrays as arguments of kernels: what does not fit is named at the call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cuplug
import numpy as np
import pytest
from cuplug.runtime.kernels.launch.arguments import Packer, Parameter
from cuplug.runtime.kernels.simulator.host_compiler import find_compiler
from cuplug.runtime.kernels.source.signatures import pointees, signatures

pytestmark = pytest.mark.one_schedule

SOURCE = """
extern "C" __global__ void first(float *x, float value) { x[0] = value; }
extern "C" __global__ void repeat(float *x, int n) { x[0] += n; }
extern "C" __global__ void kinds(const int *i, unsigned char *c, double *d, void *any, float4 *vectors) {}
"""


@pytest.fixture(scope="module")
def module(request: pytest.FixtureRequest) -> Iterator[Any]:
    selection = request.config.getoption("--driver")
    if selection.startswith("sim"):
        selection = "sim:devices=2"
        try:
            find_compiler()
        except cuplug.CompileError as error:
            pytest.skip(str(error))
    cuplug.init(driver=selection)
    yield cuplug.SourceModule(SOURCE)
    cuplug.shutdown()


def zeros(*shape: int, kind: Any = cuplug.float32, device: str = "cuda:0") -> Any:
    return cuplug.zeros(*shape, dtype=kind, device=device)


def test_tensors_that_fit_are_taken_whatever_their_layout_was_before(module: Any) -> None:
    launch = module.get_function("first")
    for shape in ((4,), (2, 3), (4,), (5, 1)):
        x = zeros(*shape)
        for value in (1.0, 2.0):
            launch(x, value, grid=1, block=1)
            assert x.flatten()[0].item() == value
            launch.prepare(1, 1)(x, value + 1)
            assert x.flatten()[0].item() == value + 1


@pytest.mark.parametrize(
    ("kind", "elements"),
    [
        (cuplug.int32, "signed integers of 4 bytes"),
        (cuplug.float64, "floating-point numbers of 8 bytes"),
        (cuplug.float16, "halves of 2 bytes"),
        (cuplug.bfloat16, "bfloat16 numbers of 2 bytes"),
    ],
)
def test_a_tensor_of_another_type_is_named(module: Any, kind: Any, elements: str) -> None:
    launch = module.get_function("first")
    fits, other = zeros(4), zeros(4, kind=kind)
    for _ in range(3):  # before and after the call was written out for tensors
        with pytest.raises(TypeError, match=f"kernel first, parameter 0 .*'x'.*elements are {elements}"):
            launch(other, 1.0, grid=1, block=1)
        launch(fits, 1.0, grid=1, block=1)
    launch(other.data_ptr(), 1.0, grid=1, block=1)


def test_a_view_that_is_not_contiguous_is_named(module: Any) -> None:
    launch = module.get_function("first")
    x = zeros(4, 6)
    launch(x, 1.0, grid=1, block=1)
    with pytest.raises(TypeError, match=r"'x'.*not contiguous; pass \.contiguous\(\)"):
        launch(x.t(), 1.0, grid=1, block=1)
    launch(x[2:], 3.0, grid=1, block=1)
    assert x[2, 0].item() == 3.0


def test_a_tensor_in_the_place_of_a_number_is_named(module: Any) -> None:
    """Also behind a call with a tensor that is a whole number, which is taken."""
    launch = module.get_function("repeat")
    launch(zeros(4), cuplug.tensor(3), grid=1, block=1)
    for wrong, why in ((zeros(1), "only integer tensors"), (cuplug.tensor([1, 2]), "one element|2 elements")):
        with pytest.raises(TypeError, match=rf"kernel repeat, parameter 1 \('n', .*\) cannot be Tensor: .*({why})"):
            launch(zeros(4), wrong, grid=1, block=1)
        with pytest.raises(TypeError, match=r"kernel repeat, parameter 1 \('n', .*\) cannot be Tensor"):
            launch.prepare(1, 1)(zeros(4), wrong)


@pytest.mark.parametrize("error", [TypeError, ValueError])
def test_what_the_index_of_a_program_raises_stays_as_it_is(module: Any, error: type[Exception]) -> None:
    class Count:
        def __index__(self) -> int:
            raise error("not counted yet")

    with pytest.raises(error, match=r"^not counted yet$"):
        module.get_function("repeat")(zeros(4), Count(), grid=1, block=1)


def test_a_tensor_of_another_device_is_named(module: Any) -> None:
    if cuplug.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    launch = module.get_function("first")
    here, there = zeros(4), zeros(4, device="cuda:1")
    launch(here, 1.0, grid=1, block=1)
    with pytest.raises(TypeError, match=r"'x'.*on device 1, and the launch on device 0"):
        launch(there, 1.0, grid=1, block=1)
    with pytest.raises(TypeError, match=r"'x'.*host memory"):
        launch(zeros(4, device="cpu"), 1.0, grid=1, block=1)
    with cuplug.cuda.device(1):
        launch(there, 2.0, grid=1, block=1)
        assert there[0].item() == 2.0
        with pytest.raises(TypeError, match=r"'x'.*on device 0, and the launch on device 1"):
            launch(here, 1.0, grid=1, block=1)


def test_pointers_to_what_is_no_number_take_any_tensor(module: Any) -> None:
    arguments = (
        zeros(4, kind=cuplug.int32),
        zeros(4, kind=cuplug.bool),
        zeros(4, kind=cuplug.float64),
        zeros(4),
        zeros(4),
    )
    module.get_function("kinds")(*arguments, grid=1, block=1)


def test_arrays_of_other_libraries_are_checked_for_their_type(module: Any) -> None:
    class Array:
        def __init__(self, tensor: Any, typestr: str) -> None:
            self.tensor = tensor
            self.typestr = typestr

        @property
        def __cuda_array_interface__(self) -> Any:
            return {"version": 3, "shape": (4,), "typestr": self.typestr, "data": (self.tensor.data_ptr(), False)}

    x = zeros(4)
    module.get_function("first")(Array(x, "<f4"), 5.0, grid=1, block=1)
    assert x[0].item() == 5.0
    with pytest.raises(TypeError, match=r"'x'.*elements are signed integers of 8 bytes"):
        module.get_function("first")(Array(x, "<i8"), 5.0, grid=1, block=1)


def test_what_pointers_point_to_comes_from_the_source() -> None:
    source = """
    typedef float real; typedef struct { int a; } Pair;
    template <class T> __global__ void k(const T *a, T *__restrict__ b) {}
    __global__ void all(real *a, const unsigned char *b, unsigned *c, long long *d, Pair *e, void *f, int8_t *g,
                        half *h, float **i, int j, unsigned long long int *k, size_t *l, short int *m,
                        __nv_bfloat16 *n) {}
    """
    found = signatures(source, ["k<double>"])
    assert pointees(found["all"]) == ["f4", "u1", "u4", "i8", "", "", "i1", "h2", "p8", "", "u8", "u8", "i2", "g2"]
    assert pointees(found["k<double>"]) == ["f8", "f8"]


def test_options_folders_and_expressions_may_be_single_strings(tmp_path: Any, module: Any) -> None:
    (tmp_path / "value.h").write_text("#define VALUE 2\n")
    source = '#include "value.h"\ntemplate <class T> __global__ void k(T *x) { *x = N * VALUE; }'
    made = cuplug.SourceModule(source, options="-DN=5", include_dirs=str(tmp_path), name_expressions="k<float>")
    x = zeros(1)
    made.get_function("k<float>")(x, grid=1, block=1)
    assert x.item() == 10
    assert cuplug.SourceModule(source, options=["-DN=5"], include_dirs=tmp_path).get_function is not None


def test_a_number_of_another_size_becomes_the_parameters() -> None:
    packer = Packer("k", [Parameter("x", 0, 4, "f"), Parameter("n", 4, 4, "i")])
    assert packer((np.float64(0.1), 3)) == np.float32(0.1).tobytes() + b"\3\0\0\0"
