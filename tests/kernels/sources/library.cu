// What sources include.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <math.h>
#include <stdio.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

extern "C" __global__ void halves(const __half *a, const half *b, __half *sum, float *wide, half2 *pairs, __half bias) {
    int i = threadIdx.x;
    sum[i] = __hadd(a[i], b[i]) + bias;
    wide[i] = __half2float(a[i] * b[i]);
    if (i % 2 == 0) pairs[i / 2] = __hfma2(__halves2half2(a[i], a[i + 1]), __float2half2_rn(2.0f), __half2half2(bias));
}

extern "C" __global__ void groups(const int *in, int *out, unsigned *counts) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(block);
    int value = in[block.thread_rank()];
    int sum = cg::reduce(warp, value, cg::plus<int>());
    for (int i = tile.size() / 2; i > 0; i /= 2) value = max(value, tile.shfl_xor(value, i));
    block.sync();
    out[block.thread_rank()] = sum * 1000 + value;
    if (block.thread_rank() % 3 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        if (active.thread_rank() == 0) atomicAdd(counts, active.size());
    }
    unsigned odd = warp.ballot(in[block.thread_rank()] & 1);
    if (warp.thread_rank() == 0) counts[1 + warp.meta_group_rank()] = odd;
}
