// __half and __nv_bfloat16: stored in 16 bits, computed as float and rounded to nearest even (cuda_fp16.h, cuda_bf16.h).
#pragma once

namespace __cuplug {

inline unsigned short float_to_half(float x) {
#if defined(__FLT16_MAX__)
    return bits<unsigned short>((_Float16)x);
#else
    unsigned u = bits<unsigned>(x), sign = u >> 16 & 0x8000u;
    u &= 0x7fffffffu;
    if (u > 0x7f800000u) return (unsigned short)(sign | 0x7fffu);
    if (u >= 0x477ff000u) return (unsigned short)(sign | 0x7c00u);
    if (u < 0x38800000u) {  // subnormal: let the addition round
        float shifted = bits<float>(u) + 0.5f;
        return (unsigned short)(sign | (bits<unsigned>(shifted) - 0x3f000000u));
    }
    return (unsigned short)(sign | ((u + 0xc8000fffu + (u >> 13 & 1u)) >> 13));
#endif
}
inline float half_to_float(unsigned short h) {
#if defined(__FLT16_MAX__)
    return (float)bits<_Float16>(h);
#else
    unsigned sign = (unsigned)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) return bits<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x400u) return bits<float>(sign | bits<unsigned>((float)rest * 5.9604644775390625e-8f));
    return bits<float>(sign | ((rest << 13) + 0x38000000u));
#endif
}
inline unsigned short float_to_bfloat(float x) {
    unsigned u = bits<unsigned>(x);
    if (x != x) return 0x7fff;
    return (unsigned short)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
inline float bfloat_to_float(unsigned short h) { return bits<float>((unsigned)h << 16); }

// What a number of more digits becomes on the way to one of 16 bits: truncated, with the last bit set if that lost
// anything, so that a second rounding in any direction is right.
inline float to_odd_in_range(double x) {  // that of floats with all their digits, or 0
    unsigned long long u = bits<unsigned long long>(x), lost = u & 0x1fffffff;
    return (float)bits<double>((u ^ lost) | ((lost + 0x1fffffff) & 0x20000000));
}
inline float to_odd(double x) {
    double size = __builtin_fabs(x);
    if (size >= 0x1p-126 && size < 0x1p128) return to_odd_in_range(x);
    float f = (float)x;
    if ((double)f == x || x != x) return f;
    unsigned u = bits<unsigned>(f);
    if (__builtin_fabs((double)f) > size) --u;
    return bits<float>(u | 1u);
}
template <class T, typename If<IsInteger<T>::value>::yes = 0> inline float to_odd(T x) {
    if (sizeof(T) < 8) return to_odd_in_range((double)x);
    unsigned long long size = x < 0 ? 0ull - (unsigned long long)x : (unsigned long long)x, lost = size & 0x7ff;
    if (size >> 53) size = (size ^ lost) | ((lost + 0x7ff) & 0x800);  // as many digits as a double has
    return to_odd_in_range(x < 0 ? -(double)size : (double)size);
}
inline float to_odd(float x) { return x; }
// a * b + c, rounded once: where the float lies in the middle of two numbers of 16 bits, perhaps by its own rounding,
// the sum is made again, with what a double loses of it in its last bit.
template <class H> inline H fused(float a, float b, float c) {
    float f = __builtin_fmaf(a, b, c);
    H h(f);
    if ((bits<unsigned>(f) & 0xfffu) || (float)h == f) return h;
    double product = (double)a * b, sum = product + c, part = sum - product;
    double lost = (product - (sum - part)) + (c - part);
    unsigned long long u = bits<unsigned long long>(sum);
    if ((lost < 0 || lost > 0) && !(u & 1)) u += (lost > 0) == (sum > 0) ? 1 : -1;
    return H(bits<double>(u));
}
// The value of 16 bits next to what rounding to nearest gave, where that lies on the wrong side of x.
template <class H> inline H towards_zero(float x) {
    H h(x);
    if (__builtin_fabsf((float)h) > __builtin_fabsf(x)) --h.bits;
    return h;
}
template <class H> inline H downwards(float x) {
    H h(x);
    if ((float)h > x) h.bits = h.bits == 0 ? 0x8001 : h.bits & 0x8000 ? h.bits + 1 : h.bits - 1;
    return h;
}
template <class H> inline H upwards(float x) {
    H h(x);
    if ((float)h < x) h.bits = h.bits == 0x8000 ? 1 : h.bits & 0x8000 ? h.bits - 1 : h.bits + 1;
    return h;
}
// Numbers in their order, -0 before 0, and NaN at one end: below all if that is -0x8000, above all if 0x8000.
template <class H> inline int rank(H x, int end) {
    int size = x.bits & 0x7fff;
    return size > (int)H(__builtin_inff()).bits ? end : x.bits & 0x8000 ? ~size : size;
}
template <class H> inline H greatest(H a, H b, int end) {
    int p = rank(a, end), q = rank(b, end);
    return bits<H>((unsigned short)((p < q ? q : p) == end ? 0x7fff : p < q ? b.bits : a.bits));
}
template <class H> inline H least(H a, H b, int end) {
    int p = rank(a, end), q = rank(b, end);
    return bits<H>((unsigned short)((p > q ? q : p) == end ? 0x7fff : p > q ? b.bits : a.bits));
}
// What integers of fewer than 64 bits become: the nearest that there is, and 0 of NaN.
template <class T> inline T clamped(float x, long long rounded) {
    const bool sign = (T)-1 < (T)1;
    const long long greatest = sign ? (1ll << (8 * sizeof(T) - 1)) - 1 : (1ll << 8 * sizeof(T)) - 1;
    const long long least = sign ? -greatest - 1 : 0;
    return x != x ? (T)0 : (T)(rounded < least ? least : rounded > greatest ? greatest : rounded);
}

}  // namespace __cuplug

// raw and raw2 are the bits by themselves, aggregates.
#define CUPLUG_SMALL(H, H2, raw, raw2, encode, decode)                                                             \
    struct raw {                                                                                                   \
        unsigned short x;                                                                                          \
    };                                                                                                             \
    struct __attribute__((aligned(4))) raw2 {                                                                      \
        unsigned short x, y;                                                                                       \
    };                                                                                                             \
    struct __attribute__((aligned(2))) H {                                                                         \
        unsigned short bits;                                                                                       \
        H() = default;                                                                                             \
        H(float x) : bits(__cuplug::encode(x)) {}                                                                  \
        H(double x) : H(__cuplug::to_odd(x)) {}                                                                    \
        template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value>::yes = 0>                          \
        H(T x) : H(__cuplug::to_odd(x)) {}                                                                         \
        constexpr H(raw value) : bits(value.x) {}                                                                  \
        constexpr operator raw() const { return raw{bits}; }                                                       \
        operator float() const { return __cuplug::decode(bits); }                                                  \
        H& operator+=(H y) { return *this = H((float)*this + (float)y); }                                          \
        H& operator-=(H y) { return *this = H((float)*this - (float)y); }                                          \
        H& operator*=(H y) { return *this = H((float)*this * (float)y); }                                          \
        H& operator/=(H y) { return *this = H((float)*this / (float)y); }                                          \
        H& operator++() { return *this += H(1.0f); }                                                               \
        H& operator--() { return *this -= H(1.0f); }                                                               \
        H operator++(int) { H old = *this; ++*this; return old; }                                                  \
        H operator--(int) { H old = *this; --*this; return old; }                                                  \
    };                                                                                                             \
    inline H operator+(H x, H y) { return H((float)x + (float)y); }                                                \
    inline H operator-(H x, H y) { return H((float)x - (float)y); }                                                \
    inline H operator*(H x, H y) { return H((float)x * (float)y); }                                                \
    inline H operator/(H x, H y) { return H((float)x / (float)y); }                                                \
    inline H operator-(H x) { return H(-(float)x); }                                                               \
    inline H operator+(H x) { return x; }                                                                          \
    inline bool operator==(H x, H y) { return (float)x == (float)y; }                                              \
    inline bool operator!=(H x, H y) { return (float)x != (float)y; }                                              \
    inline bool operator<(H x, H y) { return (float)x < (float)y; }                                                \
    inline bool operator<=(H x, H y) { return (float)x <= (float)y; }                                              \
    inline bool operator>(H x, H y) { return (float)x > (float)y; }                                                \
    inline bool operator>=(H x, H y) { return (float)x >= (float)y; }                                              \
    struct __attribute__((aligned(4))) H2 {                                                                        \
        H x, y;                                                                                                    \
        H2() = default;                                                                                            \
        constexpr H2(H x, H y) : x(x), y(y) {}                                                                     \
        constexpr H2(raw2 value) : x(raw{value.x}), y(raw{value.y}) {}                                             \
        constexpr operator raw2() const { return raw2{x.bits, y.bits}; }                                           \
    };                                                                                                             \
    CUPLUG_SMALL_PAIR(operator+, H2, a.x + b.x, a.y + b.y)                                                         \
    CUPLUG_SMALL_PAIR(operator-, H2, a.x - b.x, a.y - b.y)                                                         \
    CUPLUG_SMALL_PAIR(operator*, H2, a.x * b.x, a.y * b.y)                                                         \
    CUPLUG_SMALL_PAIR(operator/, H2, a.x / b.x, a.y / b.y)                                                         \
    inline H2 operator-(H2 a) { return H2(-a.x, -a.y); }                                                           \
    inline H2 operator+(H2 a) { return a; }                                                                        \
    inline H2& operator+=(H2& a, H2 b) { return a = a + b; }                                                       \
    inline H2& operator-=(H2& a, H2 b) { return a = a - b; }                                                       \
    inline H2& operator*=(H2& a, H2 b) { return a = a * b; }                                                       \
    inline H2& operator/=(H2& a, H2 b) { return a = a / b; }                                                       \
    CUPLUG_SMALL_BOTH(operator==, H2, ==) CUPLUG_SMALL_BOTH(operator!=, H2, !=)                                    \
    CUPLUG_SMALL_BOTH(operator<, H2, <) CUPLUG_SMALL_BOTH(operator<=, H2, <=)                                      \
    CUPLUG_SMALL_BOTH(operator>, H2, >) CUPLUG_SMALL_BOTH(operator>=, H2, >=)                                      \
    CUPLUG_SMALL_COMPARE(eq, H, H2, a == b) CUPLUG_SMALL_COMPARE(ne, H, H2, (a < b || a > b))                      \
    CUPLUG_SMALL_COMPARE(lt, H, H2, a < b) CUPLUG_SMALL_COMPARE(le, H, H2, a <= b)                                 \
    CUPLUG_SMALL_COMPARE(gt, H, H2, a > b) CUPLUG_SMALL_COMPARE(ge, H, H2, a >= b)                                 \
    CUPLUG_SMALL_COMPARE(equ, H, H2, !(a < b || a > b)) CUPLUG_SMALL_COMPARE(neu, H, H2, a != b)                   \
    CUPLUG_SMALL_COMPARE(ltu, H, H2, !(a >= b)) CUPLUG_SMALL_COMPARE(leu, H, H2, !(a > b))                         \
    CUPLUG_SMALL_COMPARE(gtu, H, H2, !(a <= b)) CUPLUG_SMALL_COMPARE(geu, H, H2, !(a < b))                         \
    CUPLUG_SMALL_ARITHMETIC(add, H, H2, +) CUPLUG_SMALL_ARITHMETIC(sub, H, H2, -)                                  \
    CUPLUG_SMALL_ARITHMETIC(mul, H, H2, *)                                                                         \
    inline H __hdiv(H a, H b) { return a / b; }                                                                    \
    inline H2 __h2div(H2 a, H2 b) { return a / b; }                                                                \
    inline H __hmax(H a, H b) { return __cuplug::greatest(a, b, -0x8000); }                                        \
    inline H __hmin(H a, H b) { return __cuplug::least(a, b, 0x8000); }                                            \
    inline H __hmax_nan(H a, H b) { return __cuplug::greatest(a, b, 0x8000); }                                     \
    inline H __hmin_nan(H a, H b) { return __cuplug::least(a, b, -0x8000); }                                       \
    inline H __hfma(H a, H b, H c) { return __cuplug::fused<H>(a, b, c); }                                         \
    inline H __hfma_sat(H a, H b, H c) { return H(__saturatef(__cuplug::fused<H>(a, b, c))); }                     \
    inline H __hfma_relu(H a, H b, H c) { return __hmax_nan(__hfma(a, b, c), H(0.0f)); }                           \
    inline H2 __hfma2(H2 a, H2 b, H2 c) { return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }               \
    inline H2 __hfma2_sat(H2 a, H2 b, H2 c) { return H2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)); }   \
    inline H2 __hfma2_relu(H2 a, H2 b, H2 c) { return H2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)); } \
    inline H __hneg(H a) { return -a; }                                                                            \
    inline H __habs(H a) { return H(__builtin_fabsf(a)); }                                                         \
    inline H2 __hneg2(H2 a) { return -a; }                                                                         \
    inline H2 __habs2(H2 a) { return H2(__habs(a.x), __habs(a.y)); }                                               \
    inline H2 __hmax2(H2 a, H2 b) { return H2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }                               \
    inline H2 __hmin2(H2 a, H2 b) { return H2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }                               \
    inline H2 __hmax2_nan(H2 a, H2 b) { return H2(__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)); }                   \
    inline H2 __hmin2_nan(H2 a, H2 b) { return H2(__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)); }                   \
    inline H2 __hcmadd(H2 a, H2 b, H2 c) {                                                                         \
        return H2(__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));              \
    }                                                                                                              \
    inline bool __hisnan(H a) { return __builtin_isnan((float)a); }                                                \
    inline int __hisinf(H a) { return __builtin_isinf_sign((float)a); }                                            \
    inline H2 __hisnan2(H2 a) { return H2(H(__hisnan(a.x)), H(__hisnan(a.y))); }                                   \
    CUPLUG_SMALL_FUNCTION(sqrt, H, H2, __builtin_sqrtf) CUPLUG_SMALL_FUNCTION(rsqrt, H, H2, 1.0f / __builtin_sqrtf) \
    CUPLUG_SMALL_FUNCTION(rcp, H, H2, 1.0f /) CUPLUG_SMALL_FUNCTION(exp, H, H2, __builtin_expf)                    \
    CUPLUG_SMALL_FUNCTION(exp2, H, H2, __builtin_exp2f) CUPLUG_SMALL_FUNCTION(exp10, H, H2, exp10f)                \
    CUPLUG_SMALL_FUNCTION(log, H, H2, __builtin_logf) CUPLUG_SMALL_FUNCTION(log2, H, H2, __builtin_log2f)          \
    CUPLUG_SMALL_FUNCTION(log10, H, H2, __builtin_log10f) CUPLUG_SMALL_FUNCTION(sin, H, H2, __builtin_sinf)        \
    CUPLUG_SMALL_FUNCTION(cos, H, H2, __builtin_cosf) CUPLUG_SMALL_FUNCTION(tanh, H, H2, __builtin_tanhf)          \
    inline H htanh_approx(H a) { return htanh(a); }                                                                \
    inline H2 h2tanh_approx(H2 a) { return h2tanh(a); }                                                            \
    CUPLUG_SMALL_FUNCTION(floor, H, H2, __builtin_floorf) CUPLUG_SMALL_FUNCTION(ceil, H, H2, __builtin_ceilf)      \
    CUPLUG_SMALL_FUNCTION(rint, H, H2, __builtin_rintf) CUPLUG_SMALL_FUNCTION(trunc, H, H2, __builtin_truncf)      \
    inline float __low2float(H2 a) { return a.x; }                                                                 \
    inline float __high2float(H2 a) { return a.y; }                                                                \
    inline H atomicAdd(H* p, H v) { return __cuplug::update(p, [=](H old) { return old + v; }); }                  \
    inline H2 atomicAdd(H2* p, H2 v) { return __cuplug::update(p, [=](H2 old) { return old + v; }); }

#define CUPLUG_SMALL_PAIR(name, H2, first, second) \
    inline H2 name(H2 a, H2 b) { return H2(first, second); }
#define CUPLUG_SMALL_BOTH(name, H2, op) \
    inline bool name(H2 a, H2 b) { return a.x op b.x && a.y op b.y; }
// Those whose names end in u are true of NaN, the others false.
#define CUPLUG_SMALL_COMPARE(name, H, H2, result)                                                                  \
    inline bool __h##name(H a, H b) { return result; }                                                             \
    inline H2 __h##name##2(H2 a, H2 b) { return H2(H(__h##name(a.x, b.x)), H(__h##name(a.y, b.y))); }              \
    inline bool __hb##name##2(H2 a, H2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); }                   \
    inline unsigned __h##name##2_mask(H2 a, H2 b) {                                                                \
        return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);                    \
    }
#define CUPLUG_SMALL_ARITHMETIC(name, H, H2, op)                                                                   \
    inline H __h##name(H a, H b) { return a op b; }                                                                \
    inline H __h##name##_rn(H a, H b) { return a op b; }                                                           \
    inline H __h##name##_sat(H a, H b) { return H(__saturatef((float)a op(float) b)); }                            \
    inline H2 __h##name##2(H2 a, H2 b) { return a op b; }                                                          \
    inline H2 __h##name##2_rn(H2 a, H2 b) { return a op b; }                                                       \
    inline H2 __h##name##2_sat(H2 a, H2 b) { return H2(__h##name##_sat(a.x, b.x), __h##name##_sat(a.y, b.y)); }
#define CUPLUG_SMALL_FUNCTION(name, H, H2, f)                                                                      \
    inline H h##name(H a) { return H(f((float)a)); }                                                               \
    inline H2 h2##name(H2 a) { return H2(h##name(a.x), h##name(a.y)); }

// Mixed arithmetic with other numbers would be ambiguous (either side converts): it is done in the small type's float.
#define CUPLUG_SMALL_MIXED(H, op, R)                                                                                  \
    template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value || __cuplug::IsFloating<T>::value>::yes = 0> \
    inline auto operator op(H x, T y) { return (float)x op y; }                                                       \
    template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value || __cuplug::IsFloating<T>::value>::yes = 0> \
    inline auto operator op(T x, H y) { return x op(float) y; }
#define CUPLUG_SMALL_MIXED_ALL(H)                                                                              \
    CUPLUG_SMALL_MIXED(H, +, ) CUPLUG_SMALL_MIXED(H, -, ) CUPLUG_SMALL_MIXED(H, *, ) CUPLUG_SMALL_MIXED(H, /, ) \
    CUPLUG_SMALL_MIXED(H, <, ) CUPLUG_SMALL_MIXED(H, <=, ) CUPLUG_SMALL_MIXED(H, >, ) CUPLUG_SMALL_MIXED(H, >=, ) \
    CUPLUG_SMALL_MIXED(H, ==, ) CUPLUG_SMALL_MIXED(H, !=, )
// Conversions; `name` is that of the type in their names, `from` what stands before a number of 16 bits there.
#define CUPLUG_SMALL_ROUNDED(H, name, from, T)                                                               \
    inline H __##from##2##name##_rn(T x) { return H(__cuplug::to_odd(x)); }                                  \
    inline H __##from##2##name##_rz(T x) { return __cuplug::towards_zero<H>(__cuplug::to_odd(x)); }          \
    inline H __##from##2##name##_rd(T x) { return __cuplug::downwards<H>(__cuplug::to_odd(x)); }             \
    inline H __##from##2##name##_ru(T x) { return __cuplug::upwards<H>(__cuplug::to_odd(x)); }
#define CUPLUG_SMALL_TO(H, name, to, T, direction) \
    inline T __##name##2##to##_##direction(H x) { return __cuplug::clamped<T>(x, __float2ll_##direction((float)x)); }
#define CUPLUG_SMALL_TO_WIDE(H, name, to, T, direction) \
    inline T __##name##2##to##_##direction(H x) { return __float2##to##_##direction((float)x); }
#define CUPLUG_SMALL_INTEGER(H, name, integer, T, kind)                                              \
    CUPLUG_SMALL_ROUNDED(H, name, integer, T)                                                        \
    kind(H, name, integer, T, rn) kind(H, name, integer, T, rz)                                      \
    kind(H, name, integer, T, rd) kind(H, name, integer, T, ru)
#define CUPLUG_SMALL_CONVERSIONS(H, name)                                                            \
    CUPLUG_SMALL_ROUNDED(H, name, float, float)                                                      \
    CUPLUG_SMALL_INTEGER(H, name, int, int, CUPLUG_SMALL_TO)                                         \
    CUPLUG_SMALL_INTEGER(H, name, uint, unsigned int, CUPLUG_SMALL_TO)                               \
    CUPLUG_SMALL_INTEGER(H, name, short, short, CUPLUG_SMALL_TO)                                     \
    CUPLUG_SMALL_INTEGER(H, name, ushort, unsigned short, CUPLUG_SMALL_TO)                           \
    CUPLUG_SMALL_INTEGER(H, name, ll, long long, CUPLUG_SMALL_TO_WIDE)                               \
    CUPLUG_SMALL_INTEGER(H, name, ull, unsigned long long, CUPLUG_SMALL_TO_WIDE)                     \
    CUPLUG_SMALL_TO(H, name, char, signed char, rz) CUPLUG_SMALL_TO(H, name, uchar, unsigned char, rz) \
    inline short __##name##_as_short(H x) { return (short)x.bits; }                                  \
    inline H __short_as_##name(short x) { return __cuplug::bits<H>(x); }
// What has the names of the types in its own: `name` of one number, and `name2` of two.
#define CUPLUG_SMALL_NAMED(H, H2, name, name2)                                                   \
    inline H __float2##name(float x) { return H(x); }                                            \
    inline H __double2##name(double x) { return H(x); }                                          \
    inline float __##name##2float(H x) { return (float)x; }                                      \
    inline H __ushort_as_##name(unsigned short x) { return __cuplug::bits<H>(x); }               \
    inline unsigned short __##name##_as_ushort(H x) { return x.bits; }                           \
    inline H2 make_##name2(H x, H y) { return H2(x, y); }                                        \
    inline H2 __##name##2##name2(H x) { return H2(x, x); }                                       \
    inline H2 __halves2##name2(H x, H y) { return H2(x, y); }                                    \
    inline H2 __float2##name2##_rn(float x) { return H2(H(x), H(x)); }                           \
    inline H2 __floats2##name2##_rn(float x, float y) { return H2(H(x), H(y)); }                 \
    inline H2 __float22##name2##_rn(float2 v) { return H2(H(v.x), H(v.y)); }                     \
    inline float2 __##name2##2float2(H2 v) { return make_float2((float)v.x, (float)v.y); }       \
    inline H __low2##name(H2 v) { return v.x; }                                                  \
    inline H __high2##name(H2 v) { return v.y; }                                                 \
    inline H2 __low2##name2(H2 v) { return H2(v.x, v.x); }                                       \
    inline H2 __high2##name2(H2 v) { return H2(v.y, v.y); }                                      \
    inline H2 __lows2##name2(H2 a, H2 b) { return H2(a.x, b.x); }                                \
    inline H2 __highs2##name2(H2 a, H2 b) { return H2(a.y, b.y); }                               \
    inline H2 __lowhigh2highlow(H2 v) { return H2(v.y, v.x); }
