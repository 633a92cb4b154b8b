"""The kernels of ``cuda_reduce.py``: how threads walk memory, whatever is computed of it.

PARAMETERS and END stand for what differs: the results' types, and whether there is only one part of each output.
"""

BLOCK = r"""
__device__ __forceinline__ void element(Acc& a, const Stored* source, const Within& within, long long i, double p) {
    long long offset[1];
    within.go(i, offset);
    F::add(a, load(source[offset[0]]), i, p);
}
template <class W> __device__ __forceinline__ long long row_of(const W& over, long long o) {
    long long at[1];
    over.go(o, at);
    return at[0];
}
__device__ __forceinline__ void merge_block(Acc* shared, Acc& a, int me, int step, int many, double p) {
    shared[me] = a;
    __syncthreads();
    for (int half = many / 2; half > 0; half /= 2) {
        if (me / step < half) F::merge(shared[me], shared[me + half * step], p);
        __syncthreads();
    }
    a = shared[me];
}
"""

# One block for each output and split. Four accumulators keep four loads in flight.
ROWS = r"""
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const long long o = blockIdx.x, row = row_of(over, o);
    const long long share = (length + splits - 1) / splits;
    const long long first = blockIdx.y * share, last = first + share < length ? first + share : length;
    Acc many[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) many[k] = F::start();
    long long i = first + threadIdx.x;
    for (; i + 3 * 256 < last; i += 4 * 256) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) element(many[k], source + row, within, i + k * 256, p);
    }
    for (; i < last; i += 256) element(many[0], source + row, within, i, p);
    Acc a = many[0];
    #pragma unroll
    for (int k = 1; k < 4; ++k) F::merge(a, many[k], p);
    merge_block((Acc*)memory, a, threadIdx.x, 1, 256, p);
    if (threadIdx.x == 0) { END }
}
"""

# The same for elements that lie side by side: read in vectors of 16 bytes, but for those before the first such address
# and behind the last. The blocks of an output go through it together, a tile each: with a stretch for each block, those
# that memory serves last keep the rest waiting.
DENSE = r"""
struct __align__(16) Vector { Stored at[16 / sizeof(Stored)]; };
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const int width = 16 / sizeof(Stored), me = threadIdx.x;
    const long long o = blockIdx.x, step = splits * 4 * 256;
    const Stored* row = source + row_of(over, o);
    long long start = (long long)((16 - ((unsigned long long)row & 15)) & 15) / (int)sizeof(Stored);
    if (start > length) start = length;
    const long long vectors = (length - start) / width, rest = start + vectors * width + me;
    const Vector* from = reinterpret_cast<const Vector*>(row + start);
    Acc many[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) many[k] = F::start();
    if (blockIdx.y == 0 && me < start) F::add(many[0], load(row[me]), me, p);
    long long j = (long long)blockIdx.y * 4 * 256 + me;
    for (; j + 3 * 256 < vectors; j += step) {
        Vector read[4];
        #pragma unroll
        for (int k = 0; k < 4; ++k) read[k] = from[j + k * 256];
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            #pragma unroll
            for (int v = 0; v < width; ++v) F::add(many[k], load(read[k].at[v]), start + (j + k * 256) * width + v, p);
        }
    }
    for (; j < vectors; j += 256) {
        const Vector read = from[j];
        #pragma unroll
        for (int v = 0; v < width; ++v) F::add(many[v % 4], load(read.at[v]), start + j * width + v, p);
    }
    if (blockIdx.y == splits - 1 && rest < length) F::add(many[1], load(row[rest]), rest, p);
    Acc a = many[0];
    #pragma unroll
    for (int k = 1; k < 4; ++k) F::merge(a, many[k], p);
    merge_block((Acc*)memory, a, me, 1, 256, p);
    if (me == 0) { END }
}
"""

# A warp for each row whose elements lie side by side.
SHORT = r"""
struct __align__(16) Vector { Stored at[16 / sizeof(Stored)]; };
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const int width = 16 / sizeof(Stored), lane = threadIdx.x % 32;
    const long long o = (long long)blockIdx.x * 8 + threadIdx.x / 32;
    const Stored* row = source + (o < outputs ? row_of(over, o) : 0);
    const int last = o < outputs ? (int)length : 0;
    int start = (int)((16 - ((unsigned long long)row & 15)) & 15) / (int)sizeof(Stored);
    if (start > last) start = last;
    const int vectors = (last - start) / width;
    const Vector* from = reinterpret_cast<const Vector*>(row + start);
    Acc many[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) many[k] = F::start();
    if (lane < start) F::add(many[0], load(row[lane]), lane, p);
    int j = lane;
    for (; j + 3 * 32 < vectors; j += 4 * 32) {
        Vector read[4];
        #pragma unroll
        for (int k = 0; k < 4; ++k) read[k] = from[j + k * 32];
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            #pragma unroll
            for (int v = 0; v < width; ++v) F::add(many[k], load(read[k].at[v]), start + (j + k * 32) * width + v, p);
        }
    }
    for (; j < vectors; j += 32) {
        const Vector read = from[j];
        #pragma unroll
        for (int v = 0; v < width; ++v) F::add(many[v % 4], load(read.at[v]), start + j * width + v, p);
    }
    const int rest = start + vectors * width + lane;
    if (rest < last) F::add(many[1], load(row[rest]), rest, p);
    Acc a = many[0];
    #pragma unroll
    for (int k = 1; k < 4; ++k) F::merge(a, many[k], p);
    merge_block((Acc*)memory + threadIdx.x / 32 * 32, a, lane, 1, 32, p);
    if (lane == 0 && o < outputs) { END }
}
"""

# Neighbouring threads make neighbouring outputs, for memory in which these lie side by side.
COLUMNS = r"""
extern "C" __global__ void __launch_bounds__(256) reduce PARAMETERS {
    __shared__ __align__(16) unsigned char memory[256 * sizeof(Acc)];
    const long long o = (long long)blockIdx.x * 32 + threadIdx.x;
    const long long share = (length + splits - 1) / splits;
    const long long first = blockIdx.y * share, last = first + share < length ? first + share : length;
    Acc a = F::start();
    if (o < outputs) {
        const long long row = row_of(over, o);
        #pragma unroll 8
        for (long long i = first + threadIdx.y; i < last; i += 8) element(a, source + row, within, i, p);
    }
    merge_block((Acc*)memory, a, threadIdx.y * 32 + threadIdx.x, 32, 8, p);
    if (threadIdx.y == 0 && o < outputs) { END }
}
"""

# One block for each output. Enough threads that each has two parts at most: reading one after the other takes long.
FINISH = r"""
extern "C" __global__ void __launch_bounds__(512) finish PARAMETERS {
    __shared__ __align__(16) unsigned char memory[512 * sizeof(Acc)];
    const long long o = blockIdx.x;
    Acc a = F::start();
    #pragma unroll 2
    for (int i = threadIdx.x; i < splits; i += 512) F::merge(a, partial[o * splits + i], p);
    merge_block((Acc*)memory, a, threadIdx.x, 1, 512, p);
    if (threadIdx.x == 0) { END }
}
"""

# The same with one thread for each output.
FINISH_FEW = r"""
extern "C" __global__ void __launch_bounds__(128) finish PARAMETERS {
    const long long o = (long long)blockIdx.x * 128 + threadIdx.x;
    if (o >= outputs) return;
    Acc a = F::start();
    for (int i = 0; i < splits; ++i) F::merge(a, partial[o * splits + i], p);
    END
}
"""
