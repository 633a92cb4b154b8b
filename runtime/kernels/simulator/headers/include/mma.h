// Products of small matrices by a warp (nvcuda::wmma). Every lane holds both factors whole, and its share of the sums:
// which element is whose is nobody's business, as on GPUs.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#ifdef CUPLUG_SCAN
#pragma cuplug_include mma.h
#else
namespace nvcuda {
namespace wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

namespace __details {
template <class T> struct Stored { typedef T type; };
template <> struct Stored<precision::tf32> { typedef float type; };
template <class Use, int M, int N, int K> struct Shape;
template <int M, int N, int K> struct Shape<matrix_a, M, N, K> { static constexpr int rows = M, columns = K, lanes = 1; };
template <int M, int N, int K> struct Shape<matrix_b, M, N, K> { static constexpr int rows = K, columns = N, lanes = 1; };
template <int M, int N, int K> struct Shape<accumulator, M, N, K> { static constexpr int rows = M, columns = N, lanes = 32; };
template <class Layout> struct InRows { static constexpr bool value = true; };
template <> struct InRows<col_major> { static constexpr bool value = false; };
}  // namespace __details

// Elements in the order of rows; of an accumulator from this lane's first on.
template <class Use, int M, int N, int K, class T, class Layout = void> struct fragment {
    typedef __details::Shape<Use, M, N, K> shape;
    typedef typename __details::Stored<T>::type element_type;
    static constexpr int num_elements = shape::rows * shape::columns / shape::lanes;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];

    static int first() { return shape::lanes == 1 ? 0 : (int)__cuplug::lane() * num_elements; }
    static size_t place(int element, unsigned leading, bool rows) {
        const unsigned row = (unsigned)(first() + element) / shape::columns, column = (unsigned)(first() + element) % shape::columns;
        return rows ? (size_t)row * leading + column : (size_t)column * leading + row;
    }
};

template <class F, class V> inline void fill_fragment(F& matrix, const V& value) {
    for (auto& element : matrix.x) element = value;
}

template <class Use, int M, int N, int K, class T, class L, class S>
inline void load_matrix_sync(fragment<Use, M, N, K, T, L>& matrix, const S* from, unsigned leading, int line = __builtin_LINE()) {
    __syncwarp(~0u, line);
    for (int i = 0; i < matrix.num_elements; ++i) matrix.x[i] = from[matrix.place(i, leading, __details::InRows<L>::value)];
}
template <int M, int N, int K, class T, class S>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& matrix, const S* from, unsigned leading, layout_t layout, int line = __builtin_LINE()) {
    __syncwarp(~0u, line);
    for (int i = 0; i < matrix.num_elements; ++i) matrix.x[i] = from[matrix.place(i, leading, layout == mem_row_major)];
}
template <int M, int N, int K, class T, class S>
inline void store_matrix_sync(S* to, const fragment<accumulator, M, N, K, T>& matrix, unsigned leading, layout_t layout, int line = __builtin_LINE()) {
    for (int i = 0; i < matrix.num_elements; ++i) to[matrix.place(i, leading, layout == mem_row_major)] = matrix.x[i];
    __syncwarp(~0u, line);
}

namespace __details {
// Sums of halves and bfloats are kept as float, those of small integers as int.
template <class T> struct Summed { typedef float type; };
template <> struct Summed<int> { typedef int type; };
template <> struct Summed<double> { typedef double type; };
}  // namespace __details

template <int M, int N, int K, class A, class B, class C, class D, class LA, class LB>
inline void mma_sync(fragment<accumulator, M, N, K, D>& result, const fragment<matrix_a, M, N, K, A, LA>& a,
                     const fragment<matrix_b, M, N, K, B, LB>& b, const fragment<accumulator, M, N, K, C>& c,
                     bool = false, int line = __builtin_LINE()) {
    typedef typename __details::Summed<C>::type Sum;
    Sum left[M * K], right[K * N];  // converted once
    for (int i = 0; i < M * K; ++i) left[i] = (Sum)a.x[i];
    for (int i = 0; i < K * N; ++i) right[i] = (Sum)b.x[i];
    for (int i = 0; i < result.num_elements; ++i) {
        const int row = (result.first() + i) / N, column = (result.first() + i) % N;
        Sum sum = (Sum)c.x[i];
        for (int k = 0; k < K; ++k) sum += left[row * K + k] * right[k * N + column];
        result.x[i] = (D)sum;
    }
    __syncwarp(~0u, line);
}

// Rounds to the ten bits of fraction that tf32 has.
inline float __float_to_tf32(float x) {
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & ~0x1fffu);
}

}  // namespace wmma
}  // namespace nvcuda
#endif
