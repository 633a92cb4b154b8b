// Products of small matrices by a warp, as inline PTX has them (mma.sync, ldmatrix, stmatrix, movmatrix): which lane holds
// which elements is written down in PTX's manual, and programs rely on it. Sums of floats are kept as double and rounded
// once; a GPU adds up with fewer bits, in an order that nobody says.
#pragma once
#include "ptx.h"

namespace __ptx {

// Lets every lane of the warp see where the others have something.
class Everyones {
    const void** table;
    int line;

public:
    const void* own[32];  // of lane 0, which all use

    CUPLUG_SILENT Everyones(const void* mine, int line) : line(line) {
        table = (const void**)__cuplug::exchange<u64>(__cuplug::COLLECT_SHUFFLE, ~0u, (u64)own, 0, 32, line);
        table[__cuplug::lane()] = mine;
        __cuplug::exchange<int>(__cuplug::COLLECT_SYNC, ~0u, 0, 0, 32, line);
    }
    // All have seen what they wanted: nobody goes on sooner.
    CUPLUG_SILENT void end() { __cuplug::exchange<int>(__cuplug::COLLECT_SYNC, ~0u, 0, 0, 32, line); }
    CUPLUG_SILENT const void* of(u32 lane) const { return table[lane]; }
};

// How registers hold elements: R is the register, n elements in each.
template <class E> struct Element;
struct tf32 {};
struct e4m3 {};
struct e5m2 {};
// Eight bits: sign, four of the exponent (less 7), three of the fraction; without infinities.
inline f64 of_e4m3(u8 raw) {
    const int exponent = raw >> 3 & 15, fraction = raw & 7;
    if ((raw & 127) == 127) return __builtin_nan("");
    const f64 value = exponent ? __builtin_ldexp(8 + fraction, exponent - 10) : __builtin_ldexp(fraction, -9);
    return raw & 128 ? -value : value;
}
#define CUPLUG_ELEMENT(E, R_, n_, S, expression)                       \
    template <> struct Element<E> {                                    \
        typedef R_ R;                                                  \
        typedef S Sum;                                                 \
        static constexpr u32 n = n_;                                   \
        static S read(R word, u32 i) { return expression; }            \
    };
CUPLUG_ELEMENT(f16, u32, 2, f64, __cuplug::half_to_float((u16)(word >> 16 * i)))
CUPLUG_ELEMENT(bf16, u32, 2, f64, __cuplug::bfloat_to_float((u16)(word >> 16 * i)))
CUPLUG_ELEMENT(e4m3, u32, 4, f64, of_e4m3((u8)(word >> 8 * i)))
CUPLUG_ELEMENT(e5m2, u32, 4, f64, __cuplug::half_to_float((u16)((word >> 8 * i & 255u) << 8)))
CUPLUG_ELEMENT(tf32, u32, 1, f64, (f64)bits<f32>((word & ~0x1fffu) + i))
CUPLUG_ELEMENT(f64, u64, 1, f64, bits<f64>(word + i))
CUPLUG_ELEMENT(s8, u32, 4, s32, (s8)(word >> 8 * i))
CUPLUG_ELEMENT(u8, u32, 4, s32, (u8)(word >> 8 * i))
#undef CUPLUG_ELEMENT

// The accumulators: f32, s32 and f64 one to a register, f16 two.
inline f64 read_sum(f32*, const u32* words, u32 i) { return bits<f32>(words[i]); }
inline f64 read_sum(f64*, const u64* words, u32 i) { return bits<f64>(words[i]); }
inline s32 read_sum(s32*, const u32* words, u32 i) { return (s32)words[i]; }
inline f64 read_sum(f16*, const u32* words, u32 i) { return __cuplug::half_to_float((u16)(words[i / 2] >> 16 * (i % 2))); }
inline void write_sum(f32*, u32* words, u32 i, f64 sum, bool) { words[i] = bits<u32>((f32)sum); }
inline void write_sum(f64*, u64* words, u32 i, f64 sum, bool) { words[i] = bits<u64>(sum); }
inline void write_sum(f16*, u32* words, u32 i, f64 sum, bool) {
    const u32 half = __cuplug::float_to_half((f32)sum);
    words[i / 2] = i % 2 ? (words[i / 2] & 0xffffu) | half << 16 : half;
}
inline void write_sum(s32*, u32* words, u32 i, s64 sum, bool within) {
    words[i] = within ? (u32)convert<s32, s64>(sum, NEAREST, true) : (u32)sum;
}
template <class E, class A> struct Factors {
    typename Element<A>::R a[4];
    typename Element<E>::R b[2];
};

template <class C> struct Total { typedef f64 type; };
template <> struct Total<s32> { typedef s64 type; };

// D = A * B + C, of M by K times K by 8. Lane 4 g + t holds of A, in register 2 p + h (or p, where M is 8), row g + 8 h and
// columns n t to n t + n - 1 of the p-th part of 4 n columns; of B, in register p, the rows that these columns meet, and
// column g; of C and D rows g and g + 8, columns 2 t and 2 t + 1.
template <u32 M, u32 K, class A, class B, class C, class D, class W>
CUPLUG_SILENT inline void mma(W* d, const typename Element<A>::R* a, const typename Element<B>::R* b, const W* c, bool within,
                              int line = __builtin_LINE()) {
    constexpr u32 n = Element<A>::n, halves = M / 8, parts = K / (4 * n);
    typedef Factors<B, A> Mine;
    Mine mine = {};
    for (u32 i = 0; i < halves * parts; ++i) mine.a[i] = a[i];
    for (u32 i = 0; i < parts; ++i) mine.b[i] = b[i];
    Everyones all(&mine, line);
    const u32 lane = __cuplug::lane(), row = lane / 4;
    W made[2 * halves] = {};
    for (u32 i = 0; i < 2 * halves; ++i) {
        const u32 column = 2 * (lane % 4) + i % 2;
        typename Total<C>::type sum = read_sum((C*)nullptr, c, i);
        for (u32 part = 0; part < parts; ++part)
            for (u32 t = 0; t < 4; ++t) {
                const auto left = ((const Mine*)all.of(row * 4 + t))->a[part * halves + i / 2];
                const auto right = ((const Mine*)all.of(column * 4 + t))->b[part];
                for (u32 e = 0; e < n; ++e) sum += Element<A>::read(left, e) * Element<B>::read(right, e);
            }
        write_sum((D*)nullptr, made, i, sum, within);
    }
    all.end();
    for (u32 i = 0; i < 2 * halves; ++i) d[i] = made[i];
}

// Eight rows of eight numbers of 16 bits, in shared memory: lane 8 m + r says where row r of matrix m lies, and lane 4 g + t
// gets elements 2 t and 2 t + 1 of row g, or of column g.
__attribute__((always_inline)) inline u64 row_of(const Everyones& all, u32 lane, int line) {
    const u64 address = shared_address((u64)all.of(lane));
#if CUPLUG_CHECKED
    if (__builtin_expect(address % 16 != 0, 0)) self()->api->misaligned(address, 16, "a row of a matrix", "", (u32)line);
#endif
    return address;
}
template <u32 count, bool transposed>
__attribute__((always_inline)) inline void load_matrices(u32* words, u64 row, int line = __builtin_LINE()) {
    Everyones all((const void*)row, line);
    const u32 g = __cuplug::lane() / 4, t = __cuplug::lane() % 4;
    for (u32 m = 0; m < count; ++m) {
        if (transposed) {
            const u16 low = *(const u16*)(row_of(all, 8 * m + 2 * t, line) + 2 * g);
            words[m] = low | (u32) * (const u16*)(row_of(all, 8 * m + 2 * t + 1, line) + 2 * g) << 16;
        } else {
            words[m] = *(const u32*)(row_of(all, 8 * m + g, line) + 4 * t);
        }
    }
    all.end();
}
template <u32 count, bool transposed>
__attribute__((always_inline)) inline void store_matrices(u64 row, const u32* words, int line = __builtin_LINE()) {
    Everyones all((const void*)row, line);
    const u32 g = __cuplug::lane() / 4, t = __cuplug::lane() % 4;
    for (u32 m = 0; m < count; ++m) {
        if (transposed) {
            *(u16*)(row_of(all, 8 * m + 2 * t, line) + 2 * g) = (u16)words[m];
            *(u16*)(row_of(all, 8 * m + 2 * t + 1, line) + 2 * g) = (u16)(words[m] >> 16);
        } else {
            *(u32*)(row_of(all, 8 * m + g, line) + 4 * t) = words[m];
        }
    }
    all.end();
}
CUPLUG_SILENT inline u32 transpose_matrix(u32 word, int line = __builtin_LINE()) {
    Everyones all(&word, line);
    const u32 g = __cuplug::lane() / 4, t = __cuplug::lane() % 4;
    const u32 low = *(const u32*)all.of(4 * (2 * t) + g / 2), high = *(const u32*)all.of(4 * (2 * t + 1) + g / 2);
    all.end();
    return (low >> 16 * (g % 2) & 0xffffu) | (high >> 16 * (g % 2)) << 16;
}

}  // namespace __ptx
