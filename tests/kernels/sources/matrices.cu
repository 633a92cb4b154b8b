// Products of small matrices by a warp.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// out = a * b + 0.5 * c for square matrices whose size n is a multiple of 16; b lies in columns. A block is a warp.
extern "C" __global__ void product(const half *a, const half *b, const float *c, float *out, int n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum, added;
    const int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(left, a + row * n + k, n);
        wmma::load_matrix_sync(right, b + column * n + k, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::load_matrix_sync(added, c + row * n + column, n, wmma::mem_row_major);
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] += 0.5f * added.x[i];
    wmma::store_matrix_sync(out + row * n + column, sum, n, wmma::mem_row_major);
}

// Through shared memory, and stored in columns.
extern "C" __global__ void integers(const signed char *a, const signed char *b, int *out) {
    __shared__ signed char copy[256];
    for (int i = threadIdx.x; i < 256; i += 32) copy[i] = a[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
    wmma::fill_fragment(sum, 1);
    wmma::load_matrix_sync(left, copy, 16);
    wmma::load_matrix_sync(right, b, 16);
    wmma::mma_sync(sum, left, right, sum);
    wmma::store_matrix_sync(out, sum, 16, wmma::mem_col_major);
}
