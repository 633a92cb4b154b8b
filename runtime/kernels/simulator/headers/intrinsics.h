// Intrinsics: fast functions, explicit rounding, bits. The fast functions here are as exact as the others.
#pragma once

inline float __sinf(float x) { return __builtin_sinf(x); }
inline float __cosf(float x) { return __builtin_cosf(x); }
inline float __tanf(float x) { return __builtin_tanf(x); }
inline float __expf(float x) { return __builtin_expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return __builtin_logf(x); }
inline float __log2f(float x) { return __builtin_log2f(x); }
inline float __log10f(float x) { return __builtin_log10f(x); }
inline float __powf(float x, float y) { return __builtin_powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __tanhf(float x) { return __builtin_tanhf(x); }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __frsqrt_rn(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
inline void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }

namespace __cuplug {
// Keeps the compiler from joining an operation with the next into a fused one.
template <class T> inline T rounded(T x) {
#if defined(__x86_64__)
    asm("" : "+x"(x));
#elif defined(__aarch64__)
    asm("" : "+w"(x));
#endif
    return x;
}
}  // namespace __cuplug

#define CUPLUG_ROUNDED(T, f, fma, sqrt, fmaname)                                                  \
    inline T __##f##add_rn(T x, T y) { return __cuplug::rounded(x + y); }                         \
    inline T __##f##sub_rn(T x, T y) { return __cuplug::rounded(x - y); }                         \
    inline T __##f##mul_rn(T x, T y) { return __cuplug::rounded(x * y); }                         \
    inline T __##f##div_rn(T x, T y) { return __cuplug::rounded(x / y); }                         \
    inline T __##f##rcp_rn(T x) { return __cuplug::rounded((T)1 / x); }                           \
    inline T __##f##sqrt_rn(T x) { return __builtin_##sqrt(x); }                                  \
    inline T fmaname(T x, T y, T z) { return __builtin_##fma(x, y, z); }
CUPLUG_ROUNDED(float, f, fmaf, sqrtf, __fmaf_rn)
CUPLUG_ROUNDED(double, d, fma, sqrt, __fma_rn)
#undef CUPLUG_ROUNDED

namespace __cuplug {
template <class To, class From> inline To bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "");
    To result;
    __builtin_memcpy(&result, &value, sizeof(To));
    return result;
}
// Converts with saturation, as the GPU's conversion instructions do. NaN becomes zero from a float to four bytes, else the
// highest bit alone (PTX ISA, "cvt").
template <class To, class From = float> inline To saturated(double x, To least, To greatest) {
    if (!(x == x)) return sizeof(To) <= 4 && sizeof(From) == 4 ? 0 : (To)1 << (sizeof(To) * 8 - 1);
    if (x <= (double)least) return least;
    if (x >= (double)greatest) return greatest;
    return (To)x;
}
}  // namespace __cuplug

#define CUPLUG_CONVERT(from, F, to, T, least, greatest)                                                               \
    inline T __##from##2##to##_rn(F x) { return __cuplug::saturated<T, F>(__builtin_rint((double)x), least, greatest); } \
    inline T __##from##2##to##_rz(F x) { return __cuplug::saturated<T, F>(__builtin_trunc((double)x), least, greatest); }\
    inline T __##from##2##to##_ru(F x) { return __cuplug::saturated<T, F>(__builtin_ceil((double)x), least, greatest); } \
    inline T __##from##2##to##_rd(F x) { return __cuplug::saturated<T, F>(__builtin_floor((double)x), least, greatest); }
#define CUPLUG_CONVERT_ALL(from, F)                                  \
    CUPLUG_CONVERT(from, F, int, int, INT_MIN, INT_MAX)              \
    CUPLUG_CONVERT(from, F, uint, unsigned int, 0u, UINT_MAX)        \
    CUPLUG_CONVERT(from, F, ll, long long, LLONG_MIN, LLONG_MAX)     \
    CUPLUG_CONVERT(from, F, ull, unsigned long long, 0ull, ULLONG_MAX)
CUPLUG_CONVERT_ALL(float, float)
CUPLUG_CONVERT_ALL(double, double)
#undef CUPLUG_CONVERT_ALL
#undef CUPLUG_CONVERT
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline float __ull2float_rn(unsigned long long x) { return (float)x; }
inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
inline double __ll2double_rn(long long x) { return (double)x; }
inline double __ull2double_rn(unsigned long long x) { return (double)x; }
inline float __double2float_rn(double x) { return (float)x; }

inline int __float_as_int(float x) { return __cuplug::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return __cuplug::bits<unsigned>(x); }
inline float __int_as_float(int x) { return __cuplug::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return __cuplug::bits<float>(x); }
inline long long __double_as_longlong(double x) { return __cuplug::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return __cuplug::bits<double>(x); }
inline int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
inline int __double2loint(double x) { return (int)__double_as_longlong(x); }
inline double __hiloint2double(int hi, int lo) {
    return __longlong_as_double((long long)(((unsigned long long)(unsigned)hi << 32) | (unsigned)lo));
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
namespace __cuplug {
// Any function of three bits, by its table: bit 4a + 2b + c of `table` is the result for bits a, b and c.
inline unsigned lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (unsigned row = 0; row < 8; ++row)
        if (table >> row & 1u) result |= (row & 4u ? a : ~a) & (row & 2u ? b : ~b) & (row & 1u ? c : ~c);
    return result;
}
}  // namespace __cuplug
inline unsigned __brev(unsigned x) {
    x = __builtin_bswap32(x);
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    return (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
}
inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 255) << 8 * i;
    return result;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)((((unsigned long long)hi << 32 | lo) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return (unsigned)(((unsigned long long)hi << 32 | lo) >> (shift & 31));
}
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) {
    return shift >= 32 ? lo : __funnelshift_l(lo, hi, shift);
}
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) {
    return shift >= 32 ? hi : __funnelshift_r(lo, hi, shift);
}
inline int __mul24(int x, int y) { return (int)((unsigned)(x << 8 >> 8) * (unsigned)(y << 8 >> 8)); }
inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline unsigned __sad(int x, int y, unsigned z) { return z + (x > y ? (unsigned)x - (unsigned)y : (unsigned)y - (unsigned)x); }
inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
inline int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
inline int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
inline unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
inline unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
inline int __dp4a(int x, int y, int z) {
    for (int i = 0; i < 4; ++i) z += (int)(signed char)(x >> 8 * i) * (int)(signed char)(y >> 8 * i);
    return z;
}
inline unsigned __dp4a(unsigned x, unsigned y, unsigned z) {
    for (int i = 0; i < 4; ++i) z += (x >> 8 * i & 255u) * (y >> 8 * i & 255u);
    return z;
}
#define CUPLUG_DP2A(T, S, B)                                                                                  \
    inline T __dp2a_lo(T x, T y, T z) { return z + (T)(S)x * (T)(B)y + (T)(S)(x >> 16) * (T)(B)(y >> 8); }    \
    inline T __dp2a_hi(T x, T y, T z) { return __dp2a_lo(x, y >> 16, z); }
CUPLUG_DP2A(int, short, signed char)
CUPLUG_DP2A(unsigned, unsigned short, unsigned char)
#undef CUPLUG_DP2A
// The place of the n-th set bit from `base` on, upwards; for a negative n downwards; for 0 whether `base` is set.
inline unsigned __fns(unsigned mask, unsigned base, int n) {
    if (n == 0) return base < 32 && mask >> base & 1 ? base : ~0u;
    for (int at = (int)base, step = n > 0 ? 1 : -1; at >= 0 && at < 32; at += step)
        if (mask >> at & 1 && (n -= step) == 0) return (unsigned)at;
    return ~0u;
}
