// Kernels that share a name, and instances that the source itself asks for.
__device__ int twice(int x) { return 2 * x; }
__device__ float2 twice(float2 v) { return make_float2(2 * v.x, 2 * v.y); }

__global__ void combine(const int *a, int *out, int factor) { out[threadIdx.x] = twice(a[threadIdx.x]) * factor; }
__global__ void combine(const float2 *a, int *out, int factor) {
    float2 v = twice(a[threadIdx.x]);
    out[threadIdx.x] = (int)(v.x + v.y) * factor;
}
__global__ void combine(const int *a, const int *b, int *out, unsigned factor) {
    out[threadIdx.x] = (a[threadIdx.x] + b[threadIdx.x]) * factor;
}

template <typename T> __global__ void axpy(T a, const T *x, T *y) { y[threadIdx.x] += a * x[threadIdx.x]; }
template __global__ void axpy<float>(float, const float *, float *);
template <> __global__ void axpy<int>(int a, const int *x, int *y) { y[threadIdx.x] = a - x[threadIdx.x]; }

__global__ void shift(float *x, float *out);  // which nobody defines
__global__ void shift(const float *x, float *out) { out[threadIdx.x] = x[threadIdx.x] + 1; }

template <typename T> __global__ void negate(T *x) { x[threadIdx.x] = -x[threadIdx.x]; }
__global__ void negate(int *x, int *out) { out[threadIdx.x] = -x[threadIdx.x]; }
