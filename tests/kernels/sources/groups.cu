// Cooperative groups and libcu++ beyond those of library.cu.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/limits>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

// Groups by label: how many share it, which one is mine, and their sum.
extern "C" __global__ void partitions(const int *in, int *sizes, int *ranks, int *sums, int *largest) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int i = block.thread_rank(), value = in[i];
    auto same = cg::labeled_partition(warp, value % 5);
    sizes[i] = same.size();
    ranks[i] = same.thread_rank();
    sums[i] = cg::reduce(same, value, cg::plus<int>());
    auto half = cg::binary_partition(warp, value & 1);
    largest[i] = cg::reduce(half, value, cg::greater<int>());
    if (value % 3 == 0) {
        auto few = cg::coalesced_threads();
        auto fours = cg::tiled_partition(few, 4);
        sums[i] += 1000 * cg::exclusive_scan(few, 1) + 100000 * fours.thread_rank();
    }
}

// Every way of copying into shared memory.
extern "C" __global__ void copies(const int *in, int *out) {
    __shared__ int a[64], b[64], c[64], d[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    auto block = cg::this_thread_block();
    int i = block.thread_rank();
    if (i == 0) init(&ready, block.size());
    block.sync();
    cg::memcpy_async(block, a, in, sizeof(a));
    cg::wait(block);
    cuda::memcpy_async(block, b, in, cuda::aligned_size_t<16>(sizeof(b)), ready);
    ready.arrive_and_wait();
    auto pipe = cuda::make_pipeline();
    pipe.producer_acquire();
    cuda::memcpy_async(&c[i], &in[i], sizeof(int), pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    pipe.consumer_release();
    __pipeline_memcpy_async(&d[i], &in[i], sizeof(int));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    auto token = ready.arrive();
    ready.wait(std::move(token));
    int other = 63 - i;
    out[i] = a[other] + 100 * b[other] + 10000 * c[other] + 1000000 * d[other];
}

// Half of the block fills stages for the other half.
extern "C" __global__ void staged(const int *in, int *out, int stages) {
    constexpr int DEPTH = 2, WIDTH = 32;
    __shared__ int room[DEPTH][WIDTH];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, DEPTH> state;
    auto block = cg::this_thread_block();
    const auto role = threadIdx.x < WIDTH ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    int lane = threadIdx.x % WIDTH, total = 0;
    for (int stage = 0; stage < stages; ++stage) {
        if (role == cuda::pipeline_role::producer) {
            pipe.producer_acquire();
            room[stage % DEPTH][lane] = in[stage * WIDTH + lane];
            pipe.producer_commit();
        } else {
            pipe.consumer_wait();
            total += room[stage % DEPTH][WIDTH - 1 - lane];
            pipe.consumer_release();
        }
    }
    if (role == cuda::pipeline_role::consumer) out[lane] = total;
}

__device__ cuda::atomic<int, cuda::thread_scope_device> highest;
extern "C" __global__ void atomics(int *counts, const int *in, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cuda::atomic_ref<int, cuda::thread_scope_device> count(counts[in[i] % 4]);
    count.fetch_add(1, cuda::memory_order_relaxed);
    highest.fetch_max(in[i]);
    __threadfence();
    if (cuda::atomic_ref<int, cuda::thread_scope_device>(counts[4])++ == n - 1) {
        counts[5] = highest.load();
        counts[6] = cuda::std::numeric_limits<int>::max();
    }
}
// One thread of the block waits for another.
extern "C" __global__ void signalled(int *out) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> flag;
    if (threadIdx.x == 0) flag.store(0);
    __syncthreads();
    if (threadIdx.x == 0) {
        while (flag.load(cuda::memory_order_acquire) == 0) {
        }
        out[0] = 7;
    } else if (threadIdx.x == 40) {
        flag.store(1, cuda::memory_order_release);
    }
}
