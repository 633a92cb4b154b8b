// Largest and smallest of two or three, of sums, and with zero (CUDA Math API, "SIMD Intrinsics": dynamic programming).
#pragma once

#include "simd.h"

namespace __cuplug {

template <class T> struct Best;
template <> struct Best<int> {
    static int max(int a, int b) { return a > b ? a : b; }
    static int min(int a, int b) { return a < b ? a : b; }
    static int add(int a, int b) { return (int)((unsigned)a + (unsigned)b); }
};
template <> struct Best<unsigned> {
    static unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
    static unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
    static unsigned add(unsigned a, unsigned b) { return a + b; }
};
struct Signed16 {
    static unsigned max(unsigned a, unsigned b) { return __vmaxs2(a, b); }
    static unsigned min(unsigned a, unsigned b) { return __vmins2(a, b); }
    static unsigned add(unsigned a, unsigned b) { return __vadd2(a, b); }
};
struct Unsigned16 {
    static unsigned max(unsigned a, unsigned b) { return __vmaxu2(a, b); }
    static unsigned min(unsigned a, unsigned b) { return __vminu2(a, b); }
    static unsigned add(unsigned a, unsigned b) { return __vadd2(a, b); }
};

}  // namespace __cuplug

#define CUPLUG_BEST(suffix, T, Of, which)                                                                      \
    inline T __viadd##which##_##suffix(T a, T b, T c) { return Of::which(Of::add(a, b), c); }                  \
    inline T __vi##which##3_##suffix(T a, T b, T c) { return Of::which(Of::which(a, b), c); }
#define CUPLUG_RELU(suffix, T, Of, which)                                                                      \
    inline T __viadd##which##_##suffix##_relu(T a, T b, T c) { return Of::max(Of::which(Of::add(a, b), c), 0); } \
    inline T __vi##which##3_##suffix##_relu(T a, T b, T c) { return Of::max(Of::which(Of::which(a, b), c), 0); } \
    inline T __vi##which##_##suffix##_relu(T a, T b) { return Of::max(Of::which(a, b), 0); }
// Which of the two it was: the first, where they are equal.
#define CUPLUG_WHICH(suffix, T, which, op)                                                                     \
    inline T __vib##which##_##suffix(T a, T b, bool* first) { return (*first = a op b) ? a : b; }
#define CUPLUG_WHICH_PARTS(suffix, T, which, op)                                                               \
    inline unsigned __vib##which##_##suffix(unsigned a, unsigned b, bool* high, bool* low) {                   \
        *high = (T)(a >> 16) op (T)(b >> 16);                                                                  \
        *low = (T)a op (T)b;                                                                                   \
        return ((*high ? a : b) & 0xffff0000u) | ((*low ? a : b) & 0xffffu);                                   \
    }
#define CUPLUG_DPX(which, op)                                                                                  \
    CUPLUG_BEST(s32, int, __cuplug::Best<int>, which) CUPLUG_RELU(s32, int, __cuplug::Best<int>, which)         \
    CUPLUG_BEST(u32, unsigned, __cuplug::Best<unsigned>, which)                                                \
    CUPLUG_BEST(s16x2, unsigned, __cuplug::Signed16, which) CUPLUG_RELU(s16x2, unsigned, __cuplug::Signed16, which) \
    CUPLUG_BEST(u16x2, unsigned, __cuplug::Unsigned16, which)                                                  \
    CUPLUG_WHICH(s32, int, which, op) CUPLUG_WHICH(u32, unsigned, which, op)                                   \
    CUPLUG_WHICH_PARTS(s16x2, short, which, op) CUPLUG_WHICH_PARTS(u16x2, unsigned short, which, op)
CUPLUG_DPX(max, >=)
CUPLUG_DPX(min, <=)
#undef CUPLUG_DPX
#undef CUPLUG_WHICH_PARTS
#undef CUPLUG_WHICH
#undef CUPLUG_RELU
#undef CUPLUG_BEST
