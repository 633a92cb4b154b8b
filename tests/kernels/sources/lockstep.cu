// A warp that works in lockstep by volatile pointers, as before CUDA 9.
template <class T> __device__ void sum_of_warp(volatile T *values, int lane) {
    values[lane] += values[lane + 32];
    values[lane] += values[lane + 16];
    values[lane] += values[lane + 8];
    values[lane] += values[lane + 4];
    values[lane] += values[lane + 2];
    values[lane] += values[lane + 1];
}
__device__ int before_in_warp(volatile int *values, int i) {
    int lane = i % 32;
    for (int d = 1; d < 32; d *= 2)
        if (lane >= d) values[i] = values[i - d] + values[i];
    return lane ? values[i - 1] : 0;
}

extern "C" __global__ void total(const int *in, int *out) {
    extern __shared__ int room[];
    int t = threadIdx.x;
    room[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    if (t < 64) room[t] += room[t + 64];
    __syncthreads();
    if (t < 32) sum_of_warp(room, t);
    if (t == 0) out[blockIdx.x] = room[0];
}
extern "C" __global__ void scan(const int *in, int *out) {
    __shared__ int row[128];
    row[threadIdx.x] = in[threadIdx.x];
    out[threadIdx.x] = before_in_warp(row, threadIdx.x);
}
// A local pointer, and an array whose elements are volatile.
extern "C" __global__ void largest(const float *in, float *out) {
    __shared__ float row[32];
    __shared__ volatile float other[32];
    volatile float *p = row;
    int t = threadIdx.x;
    p[t] = in[t];
    other[t] = -in[t];
    for (int d = 16; d; d /= 2)
        if (t < d) {
            p[t] = fmaxf(p[t], p[t + d]);
            other[t] = fmaxf(other[t], other[t + d]);
        }
    if (t == 0) out[0] = *p, out[1] = other[0];
}
