"""Headers that sources for the host as well include, and kernels need nothing of but the names of types.

Code for the host is left out of what is compiled (``source/host_code.py``), but what it includes must be found. These
stand in the place of headers of the standard library, of POSIX, and of libraries that may not be installed. What lies
in the program's own folders comes before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .extension_headers import EXTENSION_HEADERS

_EXCEPTIONS = (
    "runtime_error range_error overflow_error underflow_error "
    "logic_error invalid_argument domain_error length_error out_of_range"
)
"""Programs derive their own exceptions from these: with a text for the constructor, and a ``what`` that overrides."""
_STANDARD = {
    # Classes are complete, so that other classes may have members of them. What such classes call in functions of their
    # own is declared and never defined: kernels cannot call it.
    "vector": "template <class T = int, class...> class vector { public: typedef T value_type; typedef T *iterator; "
    "vector() = default; template <class... A> vector(A...); T &operator[](unsigned long); "
    "const T &operator[](unsigned long) const; T &at(unsigned long); const T &at(unsigned long) const; "
    "T &back(); T &front(); T *data(); const T *data() const; T *begin(); T *end(); const T *begin() const; "
    "const T *end() const; unsigned long size() const; bool empty() const; void clear(); void pop_back(); "
    "void shrink_to_fit(); template <class... A> void resize(A...); template <class... A> void reserve(A...); "
    "template <class... A> void push_back(A &&...); template <class... A> void emplace_back(A &&...); "
    "template <class... A> void assign(A...); template <class... A> T *insert(A...); "
    "template <class... A> T *erase(A...); template <class A> void swap(A &); };",
    "list": "template <class...> class list {};",
    "forward_list": "template <class...> class forward_list {};",
    "deque": "template <class...> class deque {};",
    "map": "template <class...> class map {}; template <class...> class multimap {};",
    "set": "template <class...> class set {}; template <class...> class multiset {};",
    "unordered_map": "template <class...> class unordered_map {}; template <class...> class unordered_multimap {};",
    "unordered_set": "template <class...> class unordered_set {}; template <class...> class unordered_multiset {};",
    "queue": "template <class...> class queue {}; template <class...> class priority_queue {};",
    "stack": "template <class...> class stack {};",
    "memory": "template <class...> class shared_ptr {}; template <class...> class unique_ptr {};",
    # In a namespace of its own: all headers of libc++ declare ``std::string``, to which a body is given there.
    "string": "namespace stub { class string { public: string() = default; string(const char *); "
    "string(unsigned long, char); const char *c_str() const; const char *data() const; unsigned long size() const; "
    "unsigned long length() const; "
    "bool empty() const; void clear(); char &back(); void push_back(char); void pop_back(); "
    "char &operator[](unsigned long); const char &operator[](unsigned long) const; "
    "template <class A> string &operator+=(const A &); template <class... A> string substr(A...) const; "
    "template <class... A> unsigned long find(A...) const; static const unsigned long npos = -1; }; "
    "template <class A> string operator+(const string &, const A &); string operator+(const char *, const string &); "
    "bool operator==(const string &, const string &); bool operator!=(const string &, const string &); "
    "bool operator<(const string &, const string &); template <class A> string to_string(A); class wstring {}; } "
    "using stub::to_string; }\n#if __has_include(<__fwd/string.h>)\n#include <__fwd/string.h>\nnamespace std {\n"
    "template <> class basic_string<char> : public stub::string { public: using stub::string::string; };\n"
    "#else\nnamespace std { using stub::string; using stub::wstring;\n#endif\n",
    "string_view": "class string_view {};",
    "bitset": "template <decltype(sizeof(0))> class bitset {};",
    "thread": "class thread {};",
    "mutex": "class mutex {}; template <class...> class lock_guard {}; template <class...> class unique_lock {};",
    "condition_variable": "class condition_variable {};",
    "future": "template <class...> class future {}; template <class...> class promise {};",
    "istream": "class istream {};",
    "ostream": "class ostream {};",
    "fstream": "class fstream {}; class ifstream {}; class ofstream {};",
    "sstream": "class stringstream {}; class istringstream {}; class ostringstream {};",
    "random": "class mt19937 {}; class random_device {}; template <class...> class uniform_real_distribution {}; "
    "template <class...> class uniform_int_distribution {}; template <class...> class normal_distribution {};",
    "stdexcept": " ".join(
        f"struct {name} {{ template <class... A> {name}(const A &...) {{}} virtual ~{name}() {{}} "
        'virtual const char *what() const noexcept { return ""; } };'
        for name in _EXCEPTIONS.split()
    ),
}
_EMPTY = (
    # of the standard library
    "any charconv chrono codecvt csignal ctime execution filesystem format iomanip ios iostream locale numeric print "
    "regex scoped_allocator shared_mutex streambuf strstream syncstream system_error typeindex valarray "
    # of POSIX and of compilers
    "arpa/inet.h dirent.h dlfcn.h emmintrin.h err.h fcntl.h getopt.h glob.h immintrin.h libgen.h malloc.h netdb.h "
    "netinet/in.h poll.h pthread.h sched.h semaphore.h signal.h strings.h sys/ioctl.h sys/mman.h sys/resource.h "
    "sys/socket.h sys/stat.h sys/sysinfo.h sys/time.h sys/timeb.h sys/times.h sys/types.h sys/un.h sys/utsname.h "
    "sys/wait.h unistd.h windows.h x86intrin.h xmmintrin.h mpi.h omp.h "
    # of CUDA and its samples
    "cuda_egl_interop.h cuda_gl_interop.h cuda_profiler_api.h cuda_vdpau_interop.h cudaEGL.h cudaGL.h cudaProfiler.h "
    "cusolver_common.h npp.h nppi.h nvJitLink.h nvToolsExt.h nvml.h nvrtc.h nvtx3/nvToolsExt.h nvtx3/nvtx3.hpp cutil.h "
    "nvToolsExtCuda.h nvToolsExtCudaRt.h nvtx3/nvToolsExtCuda.h nvtx3/nvToolsExtCudaRt.h "
    "cutil_inline.h exception.h helper_cuda.h helper_cuda_drvapi.h helper_cusolver.h helper_functions.h helper_gl.h "
    "helper_image.h helper_multiprocess.h helper_string.h helper_timer.h nvrtc_helper.h "
    # of graphics
    "EGL/egl.h EGL/eglext.h GL/freeglut.h GL/gl.h GL/glew.h GL/glext.h GL/glu.h GL/glut.h GL/glx.h GLES3/gl3.h "
    "GLES3/gl31.h GLES3/gl32.h GLFW/glfw3.h X11/Xlib.h X11/Xutil.h vulkan/vulkan.h"
)
_LIBRARIES = {
    "cublas_v2.h": "#include <cuComplex.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
    "typedef struct cublasContext* cublasHandle_t;\n"
    "enum cublasStatus_t { CUBLAS_STATUS_SUCCESS }; enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };\n"
    "enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 }; enum cublasMath_t { CUBLAS_DEFAULT_MATH };\n"
    "enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };",
    "cublas.h": "#include <cublas_v2.h>",
    "cublasXt.h": "typedef struct cublasXtContext* cublasXtHandle_t;",
    "cublasLt.h": "#include <cublas_v2.h>\ntypedef struct cublasLtContext* cublasLtHandle_t;\n"
    "typedef struct cublasLtMatmulDescOpaque* cublasLtMatmulDesc_t;\n"
    "typedef struct cublasLtMatrixLayoutOpaque* cublasLtMatrixLayout_t;\n"
    "typedef struct cublasLtMatmulPreferenceOpaque* cublasLtMatmulPreference_t;\n"
    "struct cublasLtMatmulAlgo_t {}; struct cublasLtMatmulHeuristicResult_t {};",
    "curand.h": "typedef struct curandGenerator_st* curandGenerator_t; enum curandStatus_t { CURAND_STATUS_SUCCESS };",
    "cufft.h": "#include <cuComplex.h>\ntypedef int cufftHandle; enum cufftResult { CUFFT_SUCCESS };\n"
    "typedef float cufftReal; typedef double cufftDoubleReal;\n"
    "typedef cuComplex cufftComplex; typedef cuDoubleComplex cufftDoubleComplex;",
    "cufftXt.h": "#include <cufft.h>",
    "cusparse.h": "#include <cuComplex.h>\ntypedef struct cusparseContext* cusparseHandle_t;\n"
    "typedef struct cusparseMatDescr* cusparseMatDescr_t; typedef struct cusparseSpMatDescr* cusparseSpMatDescr_t;\n"
    "typedef struct cusparseDnVecDescr* cusparseDnVecDescr_t; enum cusparseStatus_t { CUSPARSE_STATUS_SUCCESS };",
    "cusparse_v2.h": "#include <cusparse.h>",
    "cusolverDn.h": "typedef struct cusolverDnContext* cusolverDnHandle_t; enum cusolverStatus_t { CUSOLVER_OK };",
    "cusolverSp.h": "typedef struct cusolverSpContext* cusolverSpHandle_t;",
    "cudnn.h": "typedef struct cudnnContext* cudnnHandle_t; enum cudnnStatus_t { CUDNN_STATUS_SUCCESS };",
    "nccl.h": "typedef struct ncclComm* ncclComm_t; struct ncclUniqueId { char internal[128]; };\n"
    "enum ncclResult_t { ncclSuccess };",
}
_THRUST = (
    "adjacent_difference advance async/reduce binary_search complex copy count detail/config device_allocator "
    "device_delete device_free device_malloc device_new device_ptr device_reference device_vector distance equal event "
    "execution_policy extrema fill find for_each functional gather generate host_vector inner_product "
    "iterator/constant_iterator iterator/counting_iterator iterator/discard_iterator iterator/permutation_iterator "
    "iterator/reverse_iterator iterator/transform_iterator iterator/transform_output_iterator iterator/zip_iterator "
    "logical memory merge mismatch pair partition random random/linear_congruential_engine "
    "random/normal_distribution random/uniform_int_distribution random/uniform_real_distribution reduce remove replace "
    "reverse scan scatter sequence set_operations shuffle sort swap system/cuda/execution_policy "
    "system/cuda/experimental/pinned_allocator system/omp/execution_policy system_error tabulate transform "
    "transform_reduce transform_scan tuple uninitialized_copy uninitialized_fill unique universal_vector version "
    "zip_function"
)
_CUB = (
    "block/block_discontinuity block/block_load block/block_radix_sort block/block_reduce block/block_scan "
    "block/block_store cub device/device_histogram device/device_partition device/device_radix_sort "
    "device/device_reduce device/device_run_length_encode device/device_scan device/device_segmented_reduce "
    "device/device_select iterator/cache_modified_input_iterator iterator/counting_input_iterator "
    "iterator/transform_input_iterator util_allocator warp/warp_reduce warp/warp_scan"
)
_TRAITS = "#ifndef __CUDACC_RTC__\n#include <type_traits>\n#endif\n"
"""What sources may use without including it, since the standard library's own headers include it."""
STUBS: dict[str, str] = {
    name: f"#pragma once\n{text}\n"
    for name, text in {
        **dict.fromkeys(_EMPTY.split(), ""),
        **{name: f"{_TRAITS}namespace std {{ {text} }}" for name, text in _STANDARD.items()},
        **_LIBRARIES,
        **EXTENSION_HEADERS,
        **{f"thrust/{name}.h": "#include <thrust/tuple.h>" for name in _THRUST.split()},
        "thrust/tuple.h": "namespace thrust {}",
        **{f"cub/{name}.cuh": "namespace cub {}" for name in _CUB.split()},
    }.items()
}
"""The text of each header by its name."""
STUBS["iostream"] = "#pragma once\n#include <istream>\n#include <ostream>\n#include <string>\n"
_OF_DEVICES = (
    "cassert cfloat climits cmath cstddef cstdint cstdio cstdlib cstring new algorithm array functional limits"
)
_EVERYTHING = (
    *f"{_OF_DEVICES} tuple type_traits utility iostream".split(),
    *_STANDARD,
)
STUBS["bits/stdc++.h"] = (
    f"#pragma once\n{''.join(f'#include <{name}>{chr(10)}' for name in _EVERYTHING)}"
    "#ifndef __CUDACC_RTC__\n#include <complex>\n#include <initializer_list>\n#include <iterator>\n#endif\n"
)


def stubs_for(names: Iterable[str]) -> dict[str, str]:
    """Name and text of the stubs among the headers of these names, and of those that they include."""
    found: dict[str, str] = {}
    waiting = [name for name in names if name in STUBS]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = STUBS[name]
            waiting += [other for other in _INCLUDED.findall(STUBS[name]) if other in STUBS]
    return found


def write_stubs(names: Iterable[str], folder: Path) -> None:
    """Put the stubs among the headers of these names into a folder, for compilers that look for files."""
    for name, text in stubs_for(names).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


_INCLUDED = re.compile("#include <([^>]+)>")
