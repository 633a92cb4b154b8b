// Blocks of a grid, and warps of a block, that wait for one another.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__device__ float sum_of_block(const float *x, int n) {
    cg::grid_group grid = cg::this_grid();
    __shared__ float s[64];
    float sum = 0;
    for (int i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int d = 32; d; d /= 2) {
        if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
        __syncthreads();
    }
    return s[0];
}
__global__ void total(const float *x, float *parts, float *out, int n) {
    cg::grid_group grid = cg::this_grid();
    float sum = sum_of_block(x, n);
    if (!threadIdx.x) parts[blockIdx.x] = sum;
    grid.sync();
    if (grid.thread_rank() == 0) {
        float all = 0;
        for (int i = 0; i < gridDim.x; ++i) all += parts[i];
        *out = all;
    }
    cg::sync(grid);
    if (!threadIdx.x) parts[blockIdx.x] = *out;
}
__global__ void is_valid(int *out) { out[blockIdx.x] = cg::this_grid().is_valid(); }
__global__ void returns(float *x) {
    if (blockIdx.x == 3) return;
    cg::this_grid().sync();
    x[0] = 1;
}
__global__ void stays(volatile float *x) {
    if (blockIdx.x == 3) {
        while (x[0] == 0) {}
    }
    cg::this_grid().sync();
}
__global__ void beyond(float *x, int n) {
    if (blockIdx.x == 3 && !threadIdx.x) x[n] = 1;
    cg::this_grid().sync();
}
__global__ void races(float *x) {
    x[blockIdx.x] = 1;
    if (threadIdx.x == 0) x[(blockIdx.x + 1) % gridDim.x] += 1;
    cg::this_grid().sync();
}
__global__ void waits_by_hand(int *count, int *out) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (atomicAdd(count, 0) < gridDim.x) {}
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = *(volatile int *)count;
}
__global__ void tiles(const int *x, int *out) {
    __shared__ cg::block_tile_memory<256> room;
    auto block = cg::this_thread_block(room);
    auto tile = cg::tiled_partition<64>(block);
    int i = threadIdx.x, *mine = out + 6 * i;
    mine[0] = cg::reduce(tile, x[i], cg::plus<int>());
    mine[1] = tile.shfl(x[i], 5);
    mine[2] = tile.any(x[i] == 7);
    mine[3] = tile.all(x[i] >= 0);
    mine[4] = tile.meta_group_rank() * 100 + tile.thread_rank();
    if (tile.meta_group_rank() % 2) {  // only some of the tiles
        tile.sync();
        mine[5] = tile.shfl(x[i], tile.num_threads() - 1);
    } else {
        mine[5] = -1;
    }
}
__global__ void half_a_tile(int *out) {
    auto tile = cg::tiled_partition<64>(cg::this_thread_block());
    if (threadIdx.x >= 32) tile.sync();
}
