// Corners of the language that kernels use.
struct Particle {
    float3 position;
    float mass;
    int id;
};
typedef struct {
    double a;
    char tag;
    short values[3];
} Settings;
struct __align__(16) Quad {
    float v[4];
};

__constant__ int primes[] = {2, 3, 5, 7, 11, 13, 17, 19};
__device__ unsigned long long counter;
static __device__ float scratch[2][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}};
const int WIDTH = 4;

inline __device__ float3 operator+(float3 a, float3 b) { return make_float3(a.x + b.x, a.y + b.y, a.z + b.z); }
static __device__ __forceinline__ float dot(float3 a, float3 b = make_float3(1.0f, 1.0f, 1.0f)) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}
__device__ __noinline__ int where() { return threadIdx.x + blockDim.x * (blockIdx.x + gridDim.x * blockIdx.y); }
__device__ int factorial(int n) { return n < 2 ? 1 : n * factorial(n - 1); }

__global__ void structures(Particle *out, Settings settings, Quad quad, bool flag, unsigned char byte, long long big,
                           size_t size) {
    Particle p;
    p.position = make_float3(1, 2, 3) + make_float3(quad.v[0], quad.v[1], quad.v[2]);
    p.mass = dot(p.position) + (float)settings.a + settings.values[2];
    p.id = (flag ? 1000 : 0) + byte + settings.tag + (int)(big >> 32) + (int)size;
    out[threadIdx.x] = p;
}

__global__ void __launch_bounds__(128, 2) dimensions(int *out) {
    dim3 size(gridDim.x * blockDim.x, gridDim.y * blockDim.y);
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    out[(z * size.y + y) * size.x + x] = x + 100 * y + 10000 * z;
}

__global__ void devices(int *out, float *rows) {
    int i = where();
    out[i] = primes[i % 8] * factorial(i % 6);
    atomicAdd(&counter, (unsigned long long)i);
    if (i < 8) rows[i] = scratch[i / WIDTH][i % WIDTH] += 0.5f;
}

__global__ void atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d) {
    int t = threadIdx.x + blockIdx.x * blockDim.x;
    atomicAdd(&i[0], t);
    atomicSub(&i[1], 1);
    atomicMin(&i[2], -t);
    atomicMax(&i[3], t);
    atomicAnd(&i[4], ~(1 << (t % 8)));
    atomicOr(&i[5], 1 << (t % 30));
    atomicXor(&i[6], 1 << (t % 3));
    if (t == 7) atomicExch(&i[7], 77);
    atomicInc(&u[0], 9);
    atomicDec(&u[1], 6);
    atomicAdd(&u[2], 2);
    atomicMax(&u[3], (unsigned)t);
    atomicAdd(&l[0], 1ull << 33);
    atomicMax(&l[1], (unsigned long long)t << 40);
    atomicCAS(&l[2], 5ull, 6ull);
    atomicAdd(&f[0], 0.5f);
    if (t == 3) atomicExch(&f[1], 2.5f);
    atomicAdd(&d[0], 0.25);
}

__global__ void intrinsics(unsigned *out, float *f) {
    unsigned x = 0x00f0a001u;
    out[0] = __popc(x);
    out[1] = __clz(x);
    out[2] = __ffs(x);
    out[3] = __brev(x);
    out[4] = __popcll(0xffff0000ffffull);
    out[5] = __umulhi(0x80000000u, 6u);
    out[6] = __byte_perm(0x33221100u, 0x77665544u, 0x7520);
    out[7] = __funnelshift_l(0x80000000u, 1u, 4);
    out[8] = __float_as_uint(1.0f);
    out[9] = max(3, 7) + min(2u, 5u) + (unsigned)abs(-4);
    out[10] = __mul24(1000, 1000);
    out[11] = (unsigned)__float2int_rn(2.5f) + (unsigned)__float2int_ru(2.1f) * 10;
    out[12] = warpSize;
    out[13] = __clzll(1ll) * 100 + __ffsll(8ll);
    f[0] = rsqrtf(4.0f);
    f[1] = __fdividef(1.0f, 8.0f);
    f[2] = __sinf(0.5f);
    f[3] = fmaxf(1.0f, NAN);
    f[4] = __saturatef(1.5f);
    f[5] = exp2f(3.0f) + powf(2.0f, 0.5f) + cbrtf(27.0f);
    f[6] = __int_as_float(0x40490fdb);
    f[7] = fmodf(7.5f, 2.0f) + copysignf(3.0f, -1.0f) + floorf(-0.5f);
    f[8] = (float)(sqrt(2.0) + erf(0.5) + atan2(1.0, 2.0));
    f[9] = isnan(f[3]) + isinf(1.0f / 0.0f) * 2.0f;
    sincosf(0.75f, &f[10], &f[11]);
    f[12] = hypotf(3.0f, 4.0f) + fabsf(-1.0f) + roundf(2.5f) + truncf(-1.7f);
}

__global__ void warps(int *out, unsigned *votes, float *f) {
    int lane = threadIdx.x & 31, t = threadIdx.x;
    unsigned all = 0xffffffffu;
    out[t] = __shfl_sync(all, t * 10, 3);
    out[t + 64] = __shfl_up_sync(all, lane, 2);
    out[t + 128] = __shfl_down_sync(all, lane, 4, 8);
    out[t + 192] = __shfl_xor_sync(all, lane, 1);
    f[t] = __shfl_sync(all, 0.5f * t, lane + 1, 16);
    unsigned odd = __ballot_sync(all, lane & 1);
    int any = __any_sync(all, lane == 40), every = __all_sync(all, lane < 32);
    unsigned same = __match_any_sync(all, lane / 8);
    if (lane < 12) {
        unsigned mask = __activemask();
        int sum = __reduce_add_sync(mask, lane);
        if (lane == 0) votes[t / 32 * 8 + 4] = mask;
        if (lane == 0) votes[t / 32 * 8 + 5] = sum;
        __syncwarp(mask);
    }
    if (lane == 9) {
        votes[t / 32 * 8 + 0] = odd;
        votes[t / 32 * 8 + 1] = any;
        votes[t / 32 * 8 + 2] = every;
        votes[t / 32 * 8 + 3] = same;
    }
    int count = __syncthreads_count(t % 3 == 0), both = __syncthreads_and(t >= 0), either = __syncthreads_or(t == 99);
    if (t == 0) votes[16] = count, votes[17] = both, votes[18] = either;
}

// Waits for all blocks before it, as single-pass scans do.
__device__ volatile int ticket;
__global__ void in_turn(int *order, int *next) {
    if (threadIdx.x == 0) {
        while (atomicAdd(next, 0) != (int)blockIdx.x) {
        }
        order[blockIdx.x] = ticket++;
        __threadfence();
        atomicAdd(next, 1);
    }
    __syncthreads();
}

__global__ void shared_structures(float *out) {
    __shared__ struct {
        float values[8];
        int count;
    } block;
    __shared__ Particle particles[8];
    __shared__ volatile int flags[8];
    __shared__ __align__(16) unsigned char bytes[32];
    int t = threadIdx.x;
    if (t == 0) block.count = 0;
    block.values[t] = t;
    particles[t].id = 2 * t;
    flags[t] = 3 * t;
    ((float4 *)bytes)[t % 2] = make_float4(t % 2, 0, 0, 1);
    __syncthreads();
    atomicAdd(&block.count, 1);
    __syncthreads();
    out[t] = block.values[7 - t] + particles[(t + 1) % 8].id + flags[(t + 2) % 8] + block.count * 100;
    out[8 + t] = ((float *)bytes)[t];
}

// Two arrays in one piece of dynamic shared memory.
__global__ void carved(float *out, int n) {
    extern __shared__ __align__(16) unsigned char raw[];
    float *numbers = (float *)raw;
    int *places = (int *)&numbers[n];
    int t = threadIdx.x;
    numbers[t] = 0.5f * t;
    places[t] = (t + 1) % n;
    __syncthreads();
    out[t] = numbers[places[t]];
}

__global__ void clocks(long long *out) {
    long long start = clock64();
    __threadfence();
    out[0] = clock64() - start;
}

// Shared variables outside functions, used from several.
__shared__ float row[32];
static __shared__ struct { int sum, largest; } totals;
extern __shared__ unsigned char room[];
__device__ float neighbour(int i) { return row[(i + 1) % 32] + ((float *)room)[i]; }
template <class T> __device__ T first(const T *row) { return row[0]; }
__global__ void shared_by_functions(const float *in, float *out) {
    int t = threadIdx.x;
    if (t == 0) totals.sum = totals.largest = 0;
    row[t] = in[t];
    reinterpret_cast<float *>(room)[t] = 100.0f * t;
    __syncthreads();
    atomicAdd(&totals.sum, t);
    atomicMax(&totals.largest, t);
    __syncthreads();
    out[t] = neighbour(t) + first(in) + totals.sum + totals.largest;
}

// Shared variables of functions without a name, one of them an argument, and a name in brackets.
template <class F> __device__ void apply(F function) { function(threadIdx.x); }
__global__ void shared_by_lambdas(const float *in, float *out) {
    extern __shared__ float (whole)[];
    apply([&](int i) {
        __shared__ float tile[32];
        tile[i] = in[i];
        __syncthreads();
        whole[i] = tile[31 - i];
    });
    auto next = [&](int i) {
        extern __shared__ float whole[];
        __syncthreads();
        return whole[(i + 1) % 32];
    };
    out[threadIdx.x] = next(threadIdx.x);
}

__device__ unsigned lane_of_warp() {
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
__global__ void assembly(unsigned *out, unsigned a, unsigned b) {
    unsigned before, bits, sum, index;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(before));
    asm("bfe.u32 %0, %1, %2, 7;" : "=r"(bits) : "r"(a), "r"(4));
    asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(9));
    asm("mov.u32 %0, %%tid.x;\n\t"
        "add.u32 %0, %0, %1;" : "=r"(index) : "r"(1000));
    asm volatile("membar.gl;" ::: "memory");
    unsigned *mine = out + 4 * threadIdx.x;
    mine[0] = lane_of_warp() + (before << 8);
    mine[1] = bits;
    mine[2] = sum;
    mine[3] = index;
}
