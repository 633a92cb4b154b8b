"""Headers of CUDA's whose contents the simulator has elsewhere: under another name, or without any include."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_IN_CUDA_HOST = (
    "builtin_types.h channel_descriptor.h common_functions.h cuda.h cuda_device_runtime_api.h cuda_runtime_api.h "
    "cuda_surface_types.h cuda_texture_types.h device_atomic_functions.h device_double_functions.h device_functions.h "
    "device_launch_parameters.h device_types.h driver_functions.h driver_types.h host_config.h host_defines.h "
    "library_types.h math_functions.h sm_20_atomic_functions.h sm_20_intrinsics.h sm_30_intrinsics.h "
    "sm_32_atomic_functions.h sm_32_intrinsics.h sm_35_atomic_functions.h sm_35_intrinsics.h sm_60_atomic_functions.h "
    "sm_61_intrinsics.h surface_functions.h surface_indirect_functions.h surface_types.h texture_fetch_functions.h "
    "texture_indirect_functions.h texture_types.h vector_functions.h vector_functions.hpp vector_types.h "
    "crt/device_functions.h crt/host_config.h crt/host_defines.h crt/math_functions.h crt/math_functions.hpp"
)
_OF_STANDARD = (
    "algorithm array cassert cfloat climits cmath complex cstddef cstdint cstdlib cstring functional initializer_list "
    "iterator limits new optional ratio tuple type_traits utility"
)
"""The headers of ``cuda::std`` that are those of ``std``."""
_OF_CUB = (
    "block/block_exchange block/block_load block/block_reduce block/block_scan block/block_store "
    "thread/thread_operators util_type warp/warp_reduce warp/warp_scan"
)
_OF_THRUST = (
    "binary_search copy count extrema fill find for_each inner_product reduce reverse scan sequence sort transform "
    "transform_reduce unique"
)
_FORWARDING = {
    **dict.fromkeys(_IN_CUDA_HOST.split(), ""),
    **{
        f"cuda/std/{name}": f"#include <{name}>\nnamespace cuda {{ namespace std {{ using namespace ::std; }} }}"
        for name in _OF_STANDARD.split()
    },
    **{f"cub/{name}.cuh": "#include <cub/cub.cuh>" for name in _OF_CUB.split()},
    **{f"thrust/{name}.h": "#include <thrust/execution_policy.h>" for name in _OF_THRUST.split()},
    "crt/mma.h": "#include <mma.h>",
    "cuda/std/atomic": "#include <cuda/atomic>",
    "cuda/std/barrier": "#include <cuda/barrier>",
    "cuda_pipeline_primitives.h": "#include <cuda_pipeline.h>",
}


def write_forwarding_headers(folder: Path, names: Iterable[str] | None = None) -> None:
    """Put these headers, or those of these names, into a folder, in which a compiler looks before a program's own."""
    for name in _FORWARDING.keys() if names is None else _FORWARDING.keys() & set(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#pragma once\n{_FORWARDING[name]}\n")
