// Tiles of several warps: first what works, then what compiles and makes a GPU wait for ever, or gives undefined results.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__device__ int place_of(cg::thread_block_tile<16> tile) { return 10 * tile.meta_group_rank() + tile.meta_group_size(); }
__device__ int place_of_large(cg::thread_block_tile<64> tile) { return 10 * tile.meta_group_rank() + tile.meta_group_size(); }

extern "C" {
__global__ void parts(int *out) {  // of blocks of 256
    auto block = cg::this_thread_block();
    auto half = cg::tiled_partition<128>(block);
    auto quarter = cg::tiled_partition<64>(half);
    auto small = cg::tiled_partition<16>(quarter);
    auto alike = cg::binary_partition(small, true);
    int *mine = out + 6 * threadIdx.x;
    mine[0] = 10 * half.meta_group_rank() + half.meta_group_size();
    mine[1] = 10 * quarter.meta_group_rank() + quarter.meta_group_size();
    mine[2] = 10 * small.meta_group_rank() + small.meta_group_size();
    mine[3] = place_of(small);
    mine[4] = place_of_large(quarter);
    mine[5] = 10 * alike.meta_group_rank() + alike.meta_group_size();
}
__global__ void combined(const int *x, int *out) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    int *mine = out + 5 * threadIdx.x, value = x[threadIdx.x];
    mine[0] = cg::reduce(tile, value, cg::plus<int>());
    mine[1] = cg::reduce(tile, value, cg::less<int>());
    mine[2] = cg::inclusive_scan(tile, value);
    mine[3] = cg::exclusive_scan(tile, value, cg::plus<int>());
    mine[4] = cg::invoke_one_broadcast(tile, [=] { return 2 * value; });
}
__global__ void largest(int *out) {  // of one block of 1024
    auto tile = cg::tiled_partition<1024>(cg::this_thread_block());
    out[threadIdx.x] = tile.shfl((int)threadIdx.x, 1000) + tile.all(1);
}
__global__ void two_sizes(int *out) {  // of blocks of 128: some wait for the whole while others wait for their half
    auto block = cg::this_thread_block();
    auto half = cg::tiled_partition<64>(block);
    auto whole = cg::tiled_partition<128>(block);
    if (threadIdx.x < 32)
        for (int turn = 0; turn < 10; ++turn) __nanosleep(100);
    half.sync();
    whole.sync();
    out[threadIdx.x] = whole.any(threadIdx.x == 127) + half.all(threadIdx.x < 64);
}

// What needs a mistake: n is a thread of the block.
__global__ void two_sources(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    __syncthreads();
    if (threadIdx.x > n) return;
    out[threadIdx.x] = tile.shfl((int)threadIdx.x, tile.thread_rank() ^ 1);
}
__global__ void reads(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x == 40) return;
    out[threadIdx.x] = tile.shfl((int)threadIdx.x, n);
}
__global__ void waits(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x == n) return;
    tile.sync();
    out[threadIdx.x] = 1;
}
__global__ void waits_for_a_late_one(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x == n)
        for (int turn = 0;; ++turn)
            if (turn == 10) return;
            else __nanosleep(100);
    tile.sync();
    out[threadIdx.x] = 1;
}
__global__ void waits_for_a_warp(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x / 32 == n) return;
    tile.sync();
    out[threadIdx.x] = 1;
}
__global__ void asks(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x == n) return;
    out[threadIdx.x] = tile.any(1);
}
__global__ void adds(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x == n) return;
    out[threadIdx.x] = cg::reduce(tile, 1, cg::plus<int>());
}
__global__ void adds_up(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x == n) return;
    out[threadIdx.x] = cg::inclusive_scan(tile, 1);
}
__global__ void two_functions(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x < n) tile.sync();
    else out[threadIdx.x] = tile.any(1);
}
__global__ void parts_of_a_part(int *out, int n) {
    auto block = cg::this_thread_block();
    if (threadIdx.x < n) {
        auto tile = cg::tiled_partition<64>(block);
        out[threadIdx.x] = tile.any(1);
    }
}
__global__ void passes_in_a_part(int *out, int n) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x < n) out[threadIdx.x] = place_of_large(tile);
}
__global__ void parts_at_run_time(int *out, int n) {
    cg::thread_group tile = cg::tiled_partition(cg::this_thread_block(), n);
    out[threadIdx.x] = tile.size();
}
}
