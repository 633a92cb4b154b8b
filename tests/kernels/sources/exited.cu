// Threads that return before others meet. Since Volta a barrier waits for the threads that have not exited, and so do
// warp functions with masks that name them.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ bool is_outside(int i, int n) { return i >= n; }
__device__ int swap_with_the_next(int i, int n, int *shared) {
    if (i >= n) return 0;
    shared[threadIdx.x] = i;
    __syncthreads();
    return shared[threadIdx.x ^ 1];
}
__device__ int count_all() { return __syncthreads_count(1); }

extern "C" {
__global__ void swaps(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __shared__ int s[96];
    s[threadIdx.x] = i;
    __syncthreads();
    out[i] = s[threadIdx.x ^ 1];
    __syncthreads();
    s[threadIdx.x] = out[i];
    __syncthreads();
    out[i] = s[threadIdx.x ^ 1] == i ? out[i] : -1;
}
__global__ void swaps_in_a_function(int *out, int n) {
    __shared__ int s[96];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int other = swap_with_the_next(i, n, s);
    if (!is_outside(i, n)) out[i] = other;
}
__global__ void last_to_leave(int *out, int n) {  // the others wait already when these leave
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        for (int turn = 0;; ++turn)
            if (turn == 10) return;
            else __nanosleep(100);
    __syncthreads();
    out[i] = i ^ 1;
}
__global__ void counts(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int all = __syncthreads_count(1), none = __syncthreads_and(i >= 0), any = __syncthreads_or(i < 0);
    out[i] = all == (blockIdx.x ? n - 96 : 96) && none && !any ? i ^ 1 : -1;
}
__global__ void counts_in_a_function(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = count_all() == (blockIdx.x ? n - 96 : 96) ? i ^ 1 : -1;
}
__global__ void votes(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = i % 32;
    if (i >= n) return;
    int there = n - (i - lane) < 32 ? n - (i - lane) : 32;
    unsigned wanted = there == 32 ? ~0u : (1u << there) - 1;
    bool right = __ballot_sync(~0u, 1) == wanted && __all_sync(~0u, 1) && !__any_sync(~0u, 0) && __activemask() == wanted;
    right = right && __match_any_sync(~0u, 7) == wanted && __reduce_add_sync(~0u, 1u) == there;
    __syncwarp();
    int other = __shfl_xor_sync(~0u, i, 1), below = __shfl_up_sync(~0u, i, 1);
    out[i] = right && below == (lane ? i - 1 : i) ? other : -1;
}
__global__ void groups(int *out, int n) {
    cg::thread_block block = cg::this_thread_block();
    int i = blockIdx.x * blockDim.x + block.thread_rank();
    if (i >= n) return;
    __shared__ int s[96];
    auto tile = cg::tiled_partition<32>(block);
    s[block.thread_rank()] = i;
    block.sync();
    int below = tile.shfl_up(i, 1);
    tile.sync();
    cg::coalesced_group there = cg::coalesced_threads();
    bool right = tile.ballot(1) == __activemask() && there.shfl(i, 0) == i - i % 32 && there.any(1);
    right = right && tile.any(1) && tile.all(1) == (there.size() == 32) && there.all(1);
    there.sync();
    out[i] = right && below == (i % 32 ? i - 1 : i) ? s[block.thread_rank() ^ 1] : -1;
}
__global__ void wide_tiles(int *out, int n) {  // of blocks of 128
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    tile.sync();
    bool right = tile.any(i >= 0) && !tile.any(i < 0) && tile.all(i >= 0);
    out[i] = right && tile.shfl(i, 37) == i - i % 64 + 37 ? i ^ 1 : -1;
}
__global__ void grid_meets(int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x >= n) return;
    out[i] = i;
    cg::this_grid().sync();
    int other = out[(i + blockDim.x) % (gridDim.x * blockDim.x)];
    cg::this_grid().sync();
    out[i] = other;
}
__global__ void leaves_between(int *out, int n) {  // from loops over the threads, if it becomes such
    __shared__ int s[96];
    int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    s[threadIdx.x] = i;
    __syncthreads();
    if (i >= n) return;
    for (int step = 1; step < 3; ++step) {
        sum += s[threadIdx.x ^ step];
        __syncthreads();
        s[threadIdx.x] = i;
        __syncthreads();
    }
    if (i % 2) {
        out[i] = sum - (i ^ 2);
        return;
    } else sum -= i ^ 2;
    __syncthreads();
    out[i] = sum;
}
__global__ void first_thread_leaves(int *out, int n) {
    if (threadIdx.x == 0) return;
    cg::this_grid().sync();
    out[threadIdx.x] = n;
}
}
