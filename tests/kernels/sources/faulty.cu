// Each kernel does something wrong when it is told to.
#include <assert.h>
struct Wide {
    double a, b;
};

__device__ int deep(int n, volatile int *sink) {
    volatile int room[64];
    room[n % 64] = n;
    int below = n > 0 ? deep(n - 1, sink) : 0;
    return below + room[(n + 1) % 64] + *sink;
}

extern "C" {
__global__ void write_at(float *out, long long index) {
    if (blockIdx.x == 2 && threadIdx.x == 5) out[index] = 1.0f;
}
__global__ void read_at(const double *in, double *out, long long index) { out[threadIdx.x] = in[index + threadIdx.x]; }
__global__ void copy_wide(Wide *out, const Wide *in, int at) { out[0] = in[at]; }
__global__ void misaligned(const char *bytes, int *out, int offset) { *out = *(const int *)(bytes + offset); }
__global__ void misaligned_float4(const float *in, float4 *out, int offset) {
    const float4 *from = (const float4 *)(in + offset);
    out->x = from->x + from->w;
}
__global__ void atomic_at(int *counters, int index) { atomicAdd(&counters[index], 1); }
__global__ void some_reach_the_barrier(int *out) {
    if (threadIdx.x < 16) __syncthreads();
    out[threadIdx.x] = threadIdx.x;
}
__global__ void two_barriers(int *out) {
    if (threadIdx.x % 2) {
        out[threadIdx.x] = 1;
        __syncthreads();
    } else {
        __syncthreads();
    }
}
__global__ void shuffle_without_all(int *out) {
    if (threadIdx.x != 3) out[threadIdx.x] = __shfl_sync(0xffffffffu, out[threadIdx.x], 0);
    __syncthreads();
}
__global__ void shared_overrun(float *out, int index) {
    __shared__ float first[30];
    __shared__ float second[30];
    if (threadIdx.x == 0) first[index] = 1.0f;
    second[threadIdx.x] = 2.0f;
    __syncthreads();
    out[threadIdx.x] = first[threadIdx.x] + second[threadIdx.x];
}
__global__ void dynamic_overrun(float *out, int index) {
    extern __shared__ float values[];
    values[index] = 1.0f;
    out[0] = values[index];
}
__global__ void uninitialised_shared(int *out) {
    __shared__ int values[4];
    out[threadIdx.x] = values[threadIdx.x];
}
__global__ void trap(int thread) {
    if (threadIdx.x == thread) __trap();
}
__global__ void asserts(int limit) { assert(threadIdx.x < limit && "too many"); }
__global__ void recurse(int depth, int *sink) { *sink = deep(depth, sink); }
// A frame that is larger than a thread's stack, and of which only the far end is used.
__global__ void large_frame(int *sink, int at) {
    int items[200000];
    for (int i = 0; i < 100; ++i) items[i] = i + threadIdx.x;
    __syncthreads();
    sink[threadIdx.x] = items[at];
}
__global__ void divide(int *values) { values[0] = values[1] / values[2]; }
__global__ void increment(int *values, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) values[i] += 1;
}
}
