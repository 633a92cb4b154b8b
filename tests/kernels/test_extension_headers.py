"""Sources that include what is not installed: PyTorch's extensions, thrust, and the whole standard library at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cuplug.runtime.kernels.compile.extension_headers import EXTENSION_HEADERS

pytestmark = [pytest.mark.needs_sim, pytest.mark.one_schedule]

EXTENSION = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/Atomic.cuh>
#include <pybind11/numpy.h>
namespace py = pybind11;
using namespace torch::indexing;
#define CHECK_INPUT(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
namespace {
template <typename scalar_t>
__global__ void add_rows(const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
                         torch::PackedTensorAccessor64<scalar_t, 1> sums) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column < x.size(1)) for (int row = 0; row < x.size(0); ++row) gpuAtomicAdd(&sums[row], x[row][column]);
}
template <typename scalar_t> C10_LAUNCH_BOUNDS_1(32)
__global__ void widen(const scalar_t *__restrict__ x, at::acc_type<scalar_t, true> *y) {
  CUDA_KERNEL_ASSERT(blockDim.x <= 32);
  y[threadIdx.x] = (at::acc_type<scalar_t, true>)x[threadIdx.x] / 3;
}
}
torch::Tensor sum_rows(torch::Tensor x, const c10::optional<at::Tensor> &out) {
  CHECK_INPUT(x);
  const at::cuda::OptionalCUDAGuard guard(device_of(x));
  auto sums = torch::zeros({x.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "sum_rows", ([&] {
    add_rows<scalar_t><<<dim3(1), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), sums.packed_accessor64<scalar_t, 1>());
  }));
  return sums;
}
class SumRows : public torch::autograd::Function<SumRows> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext *context, torch::Tensor x) { return sum_rows(x, {}); }
};
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("sum_rows", &sum_rows, "sums of rows", py::arg("x")); }
TORCH_LIBRARY(extension, m) { m.def("sum_rows(Tensor x) -> Tensor"); }
"""


def test_an_extensions_kernels_run_on_tensors_packed_as_pytorch_packs_them(machine: Any) -> None:
    values = np.random.default_rng(1).standard_normal((3, 20)).astype(np.float32)
    x, sums, thirds = machine.up(values.T), machine.zeros(3, np.float32), machine.empty(8, np.float32)
    rows = np.array([(x.address, (3, 20), (1, 3))], [("data", "u8"), ("sizes", "2i4"), ("strides", "2i4")])
    out = np.array([(sums.address, 3, 1)], [("data", "u8"), ("sizes", "i8"), ("strides", "i8")])
    module = machine.module(EXTENSION, name_expressions=["add_rows<float>", "widen<at::Half>"])
    module.get_function("add_rows<float>")(rows[0], out[0], grid=1, block=32)
    assert np.allclose(machine.down(sums, 3, np.float32), values.sum(axis=1), rtol=1e-5)
    halves = np.arange(8, dtype=np.float16)
    module.get_function("widen<at::Half>")(machine.up(halves), thirds, grid=1, block=8)
    assert np.array_equal(machine.down(thirds, 8, np.float32), halves.astype(np.float32) / 3)


def test_every_header_of_extensions_can_be_included_with_all_others(machine: Any) -> None:
    includes = "".join(f"#include <{name}>\n" for name in EXTENSION_HEADERS)
    out = machine.zeros(1, np.int32)
    source = f"{includes}__global__ void k(int *x) {{ CUDA_KERNEL_LOOP(i, 1) x[i] = at::ceil_div(7, 2); }}"
    machine.module(source).get_function("k")(out, grid=1, block=32)
    assert machine.down(out, 1, np.int32)[0] == 4


def test_the_whole_standard_library_may_be_included(machine: Any) -> None:
    source = """
        #include <bits/stdc++.h>
        using namespace std;
        struct Graph { int n; vector<vector<int>> edges; map<string, int> names; };
        vector<int> order;
        __global__ void k(int *x, int n) {
            pair<int, int> both = make_pair(min(n, 3), max(n, 4));
            x[0] = both.first * 100 + both.second;
            x[1] = numeric_limits<int>::max() == INT_MAX ? (int)floor(sqrt(17.0)) : 0;
        }
        void solve(vector<int> &v) { sort(v.begin(), v.end()); cout << v.size() << endl; k<<<1, 1>>>(nullptr, 1); }
        int main() { ios::sync_with_stdio(false); solve(order); return 0; }
    """
    out = machine.zeros(2, np.int32)
    machine.module(source).get_function("k")(out, 9, grid=1, block=1)
    assert machine.down(out, 2, np.int32).tolist() == [309, 4]


@pytest.mark.parametrize(
    ("bound", "declaration"),
    [
        ("const int width = 4;", "typedef unsigned row_t[width];"),
        ("#include <iostream>\nconstexpr size_t width = 4;", "typedef element row_t[width];"),
    ],
)
def test_a_type_is_known_by_its_own_name_and_not_by_its_bounds(machine: Any, declaration: str, bound: str) -> None:
    source = (
        f"{bound}\ntypedef unsigned element;\n{declaration}\n"
        "__global__ void k(row_t *x) { x[1][2] = sizeof(row_t); }\nint main() { return 0; }\n"
    )
    out = machine.zeros((2, 4), np.uint32)
    machine.module(source).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, (2, 4), np.uint32)[1, 2] == 16


@pytest.mark.parametrize(
    ("declaration", "used"),
    [
        ("typedef int (*function_t)(int first, kind_of second);", "(function_t)0 == 0"),
        ("typedef int plain_t, rows_t[3], *pointer_t;", "sizeof(rows_t) == 12 && sizeof(plain_t) == sizeof(int)"),
        ("typedef int function_t(int first);", "(function_t*)0 == 0"),
    ],
)
def test_types_of_any_form_are_known_by_their_names(machine: Any, declaration: str, used: str) -> None:
    source = f"typedef long kind_of;\n{declaration}\n__global__ void k(int *x) {{ x[0] = {used}; }}\nint main() {{}}\n"
    out = machine.zeros(1, np.int32)
    machine.module(source).get_function("k")(out, grid=1, block=1)
    assert machine.down(out, 1, np.int32)[0] == 1


def test_a_thread_calls_thrusts_algorithms_by_itself(machine: Any) -> None:
    source = """
        #include <cuda/std/span>
        #include <thrust/complex.h>
        #include <thrust/device_vector.h>
        #include <thrust/execution_policy.h>
        #include <thrust/extrema.h>
        #include <thrust/reduce.h>
        #include <thrust/scan.h>
        #include <thrust/sort.h>
        __global__ void k(float *x, int n, float *out, thrust::complex<float> *z) {
            out[0] = thrust::reduce(thrust::device, x, x + n, 0.0f, thrust::maximum<float>());
            out[1] = thrust::min_element(thrust::seq, x, x + n) - x;
            thrust::sort(thrust::seq, x, x + n, thrust::greater<float>());
            cuda::std::span<float> all(x, n);
            out[2] = all[2] + all.size();
            thrust::inclusive_scan(thrust::seq, x, x + 4, out + 3);
            z[0] = thrust::exp(z[0]) * thrust::conj(z[0]);
        }
        void on_the_host() { thrust::device_vector<int> v(10); thrust::sort(v.begin(), v.end()); }
        int main() { on_the_host(); }
    """
    values = np.random.default_rng(6).random(100).astype(np.float32)
    x, z, out = machine.up(values), machine.up(np.array([1 + 2j], np.complex64)), machine.zeros(7, np.float32)
    machine.module(source).get_function("k")(x, 100, out, z, grid=1, block=1)
    ordered = np.sort(values)[::-1]
    assert np.array_equal(machine.down(x, 100, np.float32), ordered)
    expected = [values.max(), values.argmin(), ordered[2] + 100, *np.cumsum(ordered[:4])]
    assert np.allclose(machine.down(out, 7, np.float32), expected)
    assert np.allclose(machine.down(z, 1, np.complex64), np.exp(1 + 2j) * (1 - 2j))


def test_thrusts_algorithms_are_called_without_a_policy_too(machine: Any) -> None:
    source = """
        #include <thrust/device_ptr.h>
        #include <thrust/functional.h>
        #include <thrust/reduce.h>
        #include <thrust/scan.h>
        #include <thrust/sort.h>
        extern "C" void solution(const float* input, float* output, size_t n) {
            thrust::device_ptr<const float> from(input);
            thrust::device_ptr<float> to(output);
            thrust::inclusive_scan(from, from + n, to, thrust::multiplies<float>());
        }
        __global__ void k(const float *x, int n, float *out, float *total) {
            thrust::device_ptr<const float> from(x);
            thrust::inclusive_scan(from, from + n, thrust::device_pointer_cast(out), thrust::multiplies<float>());
            total[0] = thrust::reduce(from, from + n);
            total[1] = thrust::reduce(x, x + n, 5.0f);
            thrust::device_ptr<float> two = thrust::device_pointer_cast(total);
            thrust::sort(two, two + 2, thrust::greater<float>());
        }
    """
    values = np.arange(1, 9, dtype=np.float32)
    x, out, total = machine.up(values), machine.zeros(8, np.float32), machine.zeros(2, np.float32)
    machine.module(source).get_function("k")(x, 8, out, total, grid=1, block=1)
    assert machine.down(out, 8, np.float32).tolist() == np.cumprod(values).tolist()
    assert machine.down(total, 2, np.float32).tolist() == [41, 36]
