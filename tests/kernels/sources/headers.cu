// Headers of C and C++ that sources include, for kernels or for the host's code around them.
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#include <cuComplex.h>
#include <cuda_runtime.h>
#include <device_launch_parameters.h>

template <class T> __device__ T least() { return std::numeric_limits<T>::lowest(); }

extern "C" __global__ void standard(float *f, int64_t *i) {
    static_assert(std::is_same<std::make_unsigned<int>::type, uint32_t>::value, "");
    f[0] = std::sqrt(2.0f) + std::fabs(-1.0f) + std::pow(2.0f, 3.0f);
    f[1] = std::max(f[2], FLT_MIN);
    f[2] = least<float>();
    float before = std::move(f[3]);
    f[3] = std::forward<float>(f[4]);
    f[4] = before;
    const int three[] = {1, 2, 3};
    i[0] = INT_MAX + (int64_t)three[1] + std::plus<int>()(3, 4);
    i[1] = std::numeric_limits<int64_t>::max() + LLONG_MIN;
    std::memcpy(&i[2], &f[3], sizeof(float));
    cuFloatComplex z = cuCdivf(make_cuFloatComplex(1, 2), make_cuFloatComplex(3, -1));
    f[5] = cuCrealf(z);
    f[6] = cuCimagf(z);
    f[7] = cuCabsf(cuCmulf(z, cuConjf(z)));
}
