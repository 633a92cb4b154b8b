// The kernels that everybody writes first. All names are C names: the source stands in extern "C" on a GPU.
#define TILE 16

__global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

__global__ void saxpy(float a, const float *x, const float *y, float *z, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) z[i] = a * x[i] + y[i];
}

__global__ void matmul(const float *A, const float *B, float *C, int n) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < n / TILE; ++t) {
        As[threadIdx.y][threadIdx.x] = A[row * n + t * TILE + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(t * TILE + threadIdx.y) * n + col];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) sum += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    C[row * n + col] = sum;
}

__global__ void transpose(const float *in, float *out, int width, int height) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
    __syncthreads();
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][threadIdx.y];
}

__global__ void reduce(const float *in, float *out, int n) {
    extern __shared__ float partial[];
    unsigned int tid = threadIdx.x;
    unsigned int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
    float sum = i < n ? in[i] : 0.0f;
    if (i + blockDim.x < n) sum += in[i + blockDim.x];
    partial[tid] = sum;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (tid < s) partial[tid] += partial[tid + s];
        __syncthreads();
    }
    if (tid == 0) out[blockIdx.x] = partial[0];
}

__device__ float warp_sum(float value) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffff, value, offset);
    return value;
}

__global__ void warp_reduce(const float *in, float *total, int n) {
    static __shared__ float sums[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    float value = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) value += in[i];
    value = warp_sum(value);
    if (lane == 0) sums[warp] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / warpSize ? sums[lane] : 0.0f;
    if (warp == 0) value = warp_sum(value);
    if (threadIdx.x == 0) atomicAdd(total, value);
}

__global__ void histogram(const unsigned char *data, unsigned int *bins, int n) {
    __shared__ unsigned int local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[data[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
}

// Blelloch's exclusive scan of one block's worth of elements.
__global__ void scan(const int *in, int *out, int n) {
    extern __shared__ int temp[];
    int tid = threadIdx.x, offset = 1;
    temp[2 * tid] = in[2 * tid];
    temp[2 * tid + 1] = in[2 * tid + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (tid < d) temp[offset * (2 * tid + 2) - 1] += temp[offset * (2 * tid + 1) - 1];
        offset *= 2;
    }
    if (tid == 0) temp[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (tid < d) {
            int ai = offset * (2 * tid + 1) - 1, bi = offset * (2 * tid + 2) - 1;
            int t = temp[ai];
            temp[ai] = temp[bi];
            temp[bi] += t;
        }
    }
    __syncthreads();
    out[2 * tid] = temp[2 * tid];
    out[2 * tid + 1] = temp[2 * tid + 1];
}

__global__ void stencil(const double *in, double *out, int nx, int ny, int nz) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x < 1 || y < 1 || z < 1 || x >= nx - 1 || y >= ny - 1 || z >= nz - 1) return;
    size_t i = ((size_t)z * ny + y) * nx + x;
    out[i] = in[i] * -6.0 + in[i - 1] + in[i + 1] + in[i - nx] + in[i + nx] + in[i - nx * ny] + in[i + nx * ny];
}

__global__ void nbody(const float4 *bodies, float3 *acceleration, int n, float softening) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 me = bodies[i];
    float3 a = make_float3(0.0f, 0.0f, 0.0f);
    for (int base = 0; base < n; base += blockDim.x) {
        tile[threadIdx.x] = bodies[base + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < blockDim.x; ++j) {
            float4 other = tile[j];
            float dx = other.x - me.x, dy = other.y - me.y, dz = other.z - me.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            float scale = other.w * inverse * inverse * inverse;
            a.x += dx * scale;
            a.y += dy * scale;
            a.z += dz * scale;
        }
        __syncthreads();
    }
    acceleration[i] = a;
}

__global__ void mandelbrot(int *out, int width, int height, int limit) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height) return;
    double cx = -2.0 + 3.0 * px / width, cy = -1.5 + 3.0 * py / height, x = 0.0, y = 0.0;
    int steps = 0;
    while (x * x + y * y <= 4.0 && steps < limit) {
        double next = __dadd_rn(__dsub_rn(__dmul_rn(x, x), __dmul_rn(y, y)), cx);
        y = __dadd_rn(__dmul_rn(__dmul_rn(2.0, x), y), cy);
        x = next;
        ++steps;
    }
    out[py * width + px] = steps;
}

__global__ void bitonic(float *values) {
    extern __shared__ float sorted[];
    unsigned int tid = threadIdx.x;
    sorted[tid] = values[tid];
    __syncthreads();
    for (unsigned int k = 2; k <= blockDim.x; k *= 2)
        for (unsigned int j = k / 2; j > 0; j /= 2) {
            unsigned int other = tid ^ j;
            if (other > tid) {
                bool up = (tid & k) == 0;
                if ((sorted[tid] > sorted[other]) == up) {
                    float t = sorted[tid];
                    sorted[tid] = sorted[other];
                    sorted[other] = t;
                }
            }
            __syncthreads();
        }
    values[tid] = sorted[tid];
}

__device__ float atomic_max(float *address, float value) {
    int *as_int = (int *)address;
    int old = *as_int, assumed;
    do {
        assumed = old;
        if (__int_as_float(assumed) >= value) break;
        old = atomicCAS(as_int, assumed, __float_as_int(value));
    } while (assumed != old);
    return __int_as_float(old);
}

__global__ void maximum(const float *in, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max(out, in[i]);
}

__constant__ float coefficients[4];
__device__ int calls = 40;

__global__ void polynomial(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = 0.0f;
    for (int k = 3; k >= 0; --k) value = value * x[i] + coefficients[k];
    y[i] = value;
    if (i == 0) calls += 2;
}

__global__ void hello(int base) { printf("block %d thread %u: %5.2f %s\n", blockIdx.x, threadIdx.x, base + 0.25, "ok"); }
