"""What kernels of PyTorch's extensions need of its headers and pybind11's, where neither need be installed.

An extension's ``.cu`` file holds kernels, and functions for the host that take tensors. Those are left out
(``source/host_code.py``); their types stand here by name alone. What kernels compute with is whole: accessors of packed
tensors, which lie in memory as PyTorch's do, half types, and the macros around kernels.
"""

from __future__ import annotations

_C10 = """\
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <iostream>
#include <map>
#include <memory>
#include <tuple>
#include <vector>
#define C10_HOST __host__
#define C10_DEVICE __device__
#define C10_HOST_DEVICE __host__ __device__
#define C10_ALWAYS_INLINE inline
#define C10_RESTRICT __restrict__
#define C10_LAUNCH_BOUNDS_0
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_WARP_SIZE 32
#define C10_UNUSED __attribute__((unused))
#define C10_CUDA_KERNEL_LAUNCH_CHECK()
#define CUDA_KERNEL_ASSERT(condition) assert(condition)
#define CUDA_KERNEL_ASSERT2(condition) assert(condition)
namespace c10 {
typedef __half Half;
typedef __nv_bfloat16 BFloat16;
class Device {};
class Scalar {};
class Stream {};
class TensorOptions {};
template <class> class ArrayRef {};
template <class> class intrusive_ptr {};
template <class> class optional {};
typedef ArrayRef<int64_t> IntArrayRef;
enum class ScalarType { Byte, Char, Short, Int, Long, Half, Float, Double };
enum class DeviceType { CPU, CUDA };
namespace cuda {
class CUDAGuard {};
class OptionalCUDAGuard {};
class CUDAStream {};
}
}
"""
_ATEN = """\
#include <c10/core/ScalarType.h>
namespace at {
using namespace c10;
class Tensor {};
class Generator {};
class TensorArg {};
class DeviceGuard {};
typedef ArrayRef<Tensor> TensorList;
template <class T, bool on_device> struct AccumulateType { typedef T type; };
template <> struct AccumulateType<Half, true> { typedef float type; };
template <> struct AccumulateType<BFloat16, true> { typedef float type; };
template <> struct AccumulateType<float, false> { typedef double type; };
template <class T, bool on_device> using acc_type = typename AccumulateType<T, on_device>::type;
template <class T> struct OpMathType { typedef T type; };
template <> struct OpMathType<Half> { typedef float type; };
template <> struct OpMathType<BFloat16> { typedef float type; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T> struct DefaultPtrTraits { typedef T* PtrType; };
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
class TensorAccessor {
public:
    typedef typename Traits<T>::PtrType PtrType;
    __host__ __device__ TensorAccessor(PtrType data, const I* sizes, const I* strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    __host__ __device__ PtrType data() const { return data_; }
    __host__ __device__ I size(I i) const { return sizes_[i]; }
    __host__ __device__ I stride(I i) const { return strides_[i]; }
    __host__ __device__ decltype(auto) operator[](I i) const {
        if constexpr (N == 1) return (data_[strides_[0] * i]);
        else return TensorAccessor<T, N - 1, Traits, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }

private:
    PtrType data_;
    const I *sizes_, *strides_;
};
// As PyTorch lays it out: the pointer, the sizes, the strides.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
class GenericPackedTensorAccessor {
public:
    typedef typename Traits<T>::PtrType PtrType;
    __host__ __device__ PtrType data() const { return data_; }
    __host__ __device__ I size(I i) const { return sizes_[i]; }
    __host__ __device__ I stride(I i) const { return strides_[i]; }
    __host__ __device__ decltype(auto) operator[](I i) const {
        if constexpr (N == 1) return (data_[strides_[0] * i]);
        else return TensorAccessor<T, N - 1, Traits, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
    PtrType data_;
    I sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class I = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, I>;
template <class T> __host__ __device__ inline T ceil_div(T a, T b) { return (a + b - 1) / b; }
namespace cuda {
template <class T> __host__ __device__ inline T ATenCeilDiv(T a, T b) { return (a + b - 1) / b; }
}
}
"""
_TORCH = """\
#include <ATen/ATen.h>
#include <pybind11/pybind11.h>
namespace torch {
using namespace at;
namespace autograd {
class AutogradContext {};
template <class> class Function {};
typedef std::vector<at::Tensor> variable_list;
}
namespace nn { namespace functional {} }
namespace indexing {}
}
"""
_PYBIND11 = """\
namespace pybind11 {
class module_ {}; class object {}; class dict {}; class list {}; class tuple {}; class str {};
template <class...> class array_t {};
namespace literals {}
}
"""
_ATOMICS = """\
#include <ATen/ATen.h>
template <class T> __device__ inline T gpuAtomicAdd(T* address, T value) { return atomicAdd(address, value); }
template <class T> __device__ inline void gpuAtomicAddNoReturn(T* address, T value) { atomicAdd(address, value); }
"""
_LOOP = """\
#include <ATen/ATen.h>
#ifndef CUDA_KERNEL_LOOP
#define CUDA_KERNEL_LOOP_TYPE(i, n, index_type) \\
    for (index_type i = (index_type)blockIdx.x * blockDim.x + threadIdx.x; i < (n); \\
         i += (index_type)blockDim.x * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, long long)
#endif
"""
_AS_C10 = (
    "core/Device core/DeviceType core/Scalar core/Stream core/TensorOptions cuda/CUDAException cuda/CUDAFunctions "
    "cuda/CUDAGuard cuda/CUDAMacros cuda/CUDAMathCompat cuda/CUDAStream macros/Macros util/ArrayRef util/BFloat16 "
    "util/Exception util/Half util/Optional util/complex"
)
_AS_ATEN = (
    "AccumulateType CUDAGeneratorImpl Context Dispatch Functions NativeFunctions NumericUtils OpMathType Parallel "
    "Tensor TensorUtils Utils core/Tensor core/TensorAccessor cuda/CUDABlas cuda/CUDAContext cuda/CUDAEvent "
    "cuda/CUDAGeneratorImpl cuda/CUDAGraphsUtils cuda/CUDAUtils cuda/DeviceUtils cuda/Exceptions "
    "cuda/detail/IndexUtils cuda/detail/TensorInfo native/cuda/Loops native/cuda/block_reduce "
    "native/cuda/thread_constants ceil_div"
)
_AS_DEVICE_CODE = (
    "cuda/CUDAApplyUtils cuda/CUDADeviceUtils cuda/CUDAGraphsUtils cuda/DeviceUtils cuda/PhiloxUtils "
    "native/cuda/Loops native/cuda/MemoryAccess native/cuda/block_reduce"
)
_AS_TORCH = (
    "all cuda csrc/autograd/custom_function csrc/autograd/variable csrc/utils/pybind custom_class library nn python "
    "script serialize/tensor torch types utils"
)
EXTENSION_HEADERS: dict[str, str] = {
    "c10/core/ScalarType.h": _C10,
    **{f"c10/{name}.h": "#include <c10/core/ScalarType.h>" for name in _AS_C10.split()},
    "ATen/ATen.h": _ATEN,
    **{f"ATen/{name}.h": "#include <ATen/ATen.h>" for name in _AS_ATEN.split()},
    **{f"ATen/{name}.cuh": "#include <ATen/ATen.h>" for name in _AS_DEVICE_CODE.split()},
    "ATen/cuda/Atomic.cuh": _ATOMICS,
    "ATen/cuda/detail/KernelUtils.h": _LOOP,
    "ATen/native/cuda/KernelUtils.cuh": "#include <ATen/cuda/Atomic.cuh>\n#include <THC/THC.h>",
    "torch/extension.h": _TORCH,
    **{f"torch/{name}.h": "#include <torch/extension.h>" for name in _AS_TORCH.split()},
    "torch/serialize/tensor.h": "#include <torch/extension.h>",
    "THC/THC.h": "#include <ATen/cuda/detail/KernelUtils.h>",
    "THC/THCAtomics.cuh": "#include <ATen/cuda/Atomic.cuh>",
    **{
        f"THC/{name}": "#include <THC/THC.h>"
        for name in ("THCDeviceUtils.cuh", "THCGeneral.h", "THCThrustAllocator.cuh")
    },
    "pybind11/pybind11.h": _PYBIND11,
    **{
        f"pybind11/{name}.h": "#include <pybind11/pybind11.h>"
        for name in ("complex", "eigen", "embed", "functional", "numpy", "operators", "stl", "stl_bind")
    },
    "Python.h": "struct PyObject;",
}
"""The text of each header by its name."""
