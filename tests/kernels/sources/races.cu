// What check="races" reports, one kernel for each kind, and kernels that are right, which it must not report.
__constant__ float table[4];
__device__ unsigned arrived;

__global__ void no_barrier(float *x, int n) {
    __shared__ float tile[64];
    tile[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = tile[63 - threadIdx.x];
}
__global__ void one_sum(float *x, int n) { x[0] += 1.0f; }
__global__ void neighbours(float *x, int n) {
    if (threadIdx.x == 0) x[(blockIdx.x + 1) % gridDim.x] = x[blockIdx.x] + 1;
}
__global__ void plain_and_atomic(int *x, int n) {
    if (threadIdx.x == 40) x[0] = n;
    else atomicAdd(x, 1);
}
__global__ void half_written(float *x, int n) {
    __shared__ float a[64];
    if (threadIdx.x < 32) a[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = a[threadIdx.x];
}
__global__ void local_unwritten(float *x, int n) {
    float a[8];
    a[n % 8] = 1;
    float sum = 0;
    for (int i = 0; i < 8; ++i) sum += a[i];
    x[threadIdx.x] = sum;
}
__global__ void copy(float *x, const float *y) { x[threadIdx.x] = y[threadIdx.x]; }
__global__ void mask_of_absent(float *x, int n) {
    if (threadIdx.x < 16) x[threadIdx.x] = __shfl_sync(0xffffffff, x[threadIdx.x], 0);
}
__global__ void mask_without_self(float *x, int n) { x[threadIdx.x] = __shfl_sync(0xffff, x[threadIdx.x], 0); }
__global__ void half_a_ballot(float *x, int n) {
    if (threadIdx.x % 2) x[threadIdx.x] = __ballot_sync(~0u, n);
}
__global__ void half_a_warp(float *x, int n) {
    if (threadIdx.x % 2) __syncwarp();
    x[threadIdx.x] += 1;
}
__global__ void from_the_returned(float *x, int n) {
    if (threadIdx.x >= 20) return;
    x[threadIdx.x] = __shfl_down_sync(~0u, x[threadIdx.x], 16);
}
__global__ void part_of_a_warp(float *x, int n) {
    if (threadIdx.x < 48) __syncthreads();
    x[threadIdx.x] += 1;
}
__global__ void write_constant(float *x, int n) { ((float *)table)[n % 4] = x[0]; }
__global__ void beyond_shared(float *x, int n) {
    __shared__ float a[64], b[64];
    a[threadIdx.x] = 1;
    b[threadIdx.x] = 2;
    __syncthreads();
    x[threadIdx.x] = a[threadIdx.x + n];
}
__global__ void beyond_local(float *x, int n) {
    float a[8], b[8];
    for (int i = 0; i < 8; ++i) b[i] = i;
    for (int i = 0; i <= 8 * n; ++i) a[i] = i;
    x[threadIdx.x] = a[threadIdx.x % 8] + b[n % 8];
}
__global__ void warp_without_sync(float *x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32)
        for (int d = 32; d; d /= 2) s[t] += s[t + d];
    x[t] = s[t];
}
__global__ void no_fence(float *x, int n) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        x[blockIdx.x] = blockIdx.x;
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) x[32 + threadIdx.x] = x[threadIdx.x % gridDim.x];
}

// --- these are right

__global__ void reversed(float *x, int n) {
    extern __shared__ float tile[];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[63 - threadIdx.x];
}
__global__ void same_value(float *x, int n) {
    __shared__ int found;
    found = 0;
    __syncthreads();
    if (x[threadIdx.x] > 0) found = 1;
    __syncthreads();
    x[threadIdx.x] = found;
}
__global__ void warp_sum(float *x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32)
        for (int d = 32; d; d /= 2) {
            float other = s[t + d];
            __syncwarp();
            s[t] += other;
            __syncwarp();
        }
    __syncthreads();
    x[t] = s[t];
}
__global__ void histogram(int *x, int n) {
    __shared__ int bins[16];
    if (threadIdx.x < 16) bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x * 7 % 16], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&x[threadIdx.x], bins[threadIdx.x]);
}
__global__ void last_block(float *x, int n) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        x[blockIdx.x] = blockIdx.x;
        __threadfence();
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last) x[32 + threadIdx.x] = x[threadIdx.x % gridDim.x];
}
__global__ void last_block_begins_again(float *x, int n) {
    __shared__ bool last;
    x[blockIdx.x * 64 + threadIdx.x] = 1;
    __threadfence();
    if (threadIdx.x == 0) last = atomicInc(&arrived, gridDim.x) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) arrived = 0;
}
__global__ void chained(volatile float *x, int n) {
    volatile int *ready = (volatile int *)x + 64;
    if (threadIdx.x) return;
    if (blockIdx.x) {
        while (!ready[blockIdx.x - 1]) {}
        __threadfence();
    }
    ((float *)x)[blockIdx.x] = blockIdx.x ? ((float *)x)[blockIdx.x - 1] + 1 : 1;
    __threadfence();
    ready[blockIdx.x] = 1;
}
__global__ void guarded_sum(float *x, int n) {
    int *lock = (int *)x + 64;
    if (threadIdx.x) return;
    while (atomicCAS(lock, 0, 1)) {}
    __threadfence();
    x[0] += 1;
    __threadfence();
    atomicExch(lock, 0);
}
__global__ void returns_early(float *x, int n) {
    int i = threadIdx.x;
    if (i >= 48) return;
    __syncwarp();
    x[i] = __any_sync(~0u, n);
}
__global__ void bytes(unsigned char *x, int n) { x[threadIdx.x] = x[threadIdx.x] + 1; }

__global__ void turned_halves(float* x, int) {
    __shared__ unsigned short s[64];
    s[threadIdx.x ^ 1] = (unsigned short)threadIdx.x;
    __syncthreads();
    s[threadIdx.x] = (unsigned short)(threadIdx.x + 1);
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x ^ 1];
}
