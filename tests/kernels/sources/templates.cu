#include <stdint.h>

namespace ops {
template <class T> struct Scale {
    T factor;
    __device__ T operator()(T x) const { return factor * x; }
};
__constant__ double offset = 0.5;
__global__ void shift(double *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] += offset;
}
}  // namespace ops

template <class T, int N = 1> __global__ void scale(T *x, T factor, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    ops::Scale<T> by{factor};
    if (i < n)
        for (int k = 0; k < N; ++k) x[i] = by(x[i]);
}

// Reverses each block's elements; the size of the shared array is a template's parameter.
template <typename T, int BLOCK> __global__ void reverse(T *x) {
    __shared__ T copy[BLOCK];
    copy[threadIdx.x] = x[blockIdx.x * BLOCK + threadIdx.x];
    __syncthreads();
    x[blockIdx.x * BLOCK + threadIdx.x] = copy[BLOCK - 1 - threadIdx.x];
}

template <class F> __device__ void each(int n, F body) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) body(i);
}

extern "C" __global__ void lambdas(int *out, int n, int bias) {
    auto square = [=] __device__(int i) { return i * i + bias; };
    each(n, [&](int i) { out[i] = square(i); });
}
