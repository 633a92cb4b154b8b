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

}  // namespace __cuplug

#define CUPLUG_SMALL(H, H2, encode, decode)                                                                        \
    struct __attribute__((aligned(2))) H {                                                                         \
        unsigned short bits;                                                                                       \
        H() = default;                                                                                             \
        H(float x) : bits(__cuplug::encode(x)) {}                                                                  \
        H(double x) : H((float)x) {}                                                                               \
        template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value>::yes = 0> H(T x) : H((float)x) {}  \
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
        H2(H x, H y) : x(x), y(y) {}                                                                               \
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
    CUPLUG_SMALL_COMPARE(eq, H, H2, ==) CUPLUG_SMALL_COMPARE(ne, H, H2, !=)                                        \
    CUPLUG_SMALL_COMPARE(lt, H, H2, <) CUPLUG_SMALL_COMPARE(le, H, H2, <=)                                         \
    CUPLUG_SMALL_COMPARE(gt, H, H2, >) CUPLUG_SMALL_COMPARE(ge, H, H2, >=)                                         \
    CUPLUG_SMALL_ARITHMETIC(add, H, H2, +) CUPLUG_SMALL_ARITHMETIC(sub, H, H2, -)                                  \
    CUPLUG_SMALL_ARITHMETIC(mul, H, H2, *)                                                                         \
    inline H __hdiv(H a, H b) { return a / b; }                                                                    \
    inline H2 __h2div(H2 a, H2 b) { return a / b; }                                                                \
    inline H __hfma(H a, H b, H c) { return H(__builtin_fmaf(a, b, c)); }                                          \
    inline H __hfma_sat(H a, H b, H c) { return H(__saturatef(__builtin_fmaf(a, b, c))); }                         \
    inline H __hfma_relu(H a, H b, H c) { return H(__builtin_fmaxf(__builtin_fmaf(a, b, c), 0.0f)); }              \
    inline H2 __hfma2(H2 a, H2 b, H2 c) { return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }               \
    inline H2 __hfma2_sat(H2 a, H2 b, H2 c) { return H2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)); }   \
    inline H2 __hfma2_relu(H2 a, H2 b, H2 c) { return H2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)); } \
    inline H __hneg(H a) { return -a; }                                                                            \
    inline H __habs(H a) { return H(__builtin_fabsf(a)); }                                                         \
    inline H __hmax(H a, H b) { return H(__builtin_fmaxf(a, b)); }                                                 \
    inline H __hmin(H a, H b) { return H(__builtin_fminf(a, b)); }                                                 \
    inline H __hmax_nan(H a, H b) { return a != a ? a : b != b ? b : __hmax(a, b); }                               \
    inline H __hmin_nan(H a, H b) { return a != a ? a : b != b ? b : __hmin(a, b); }                               \
    inline H2 __hneg2(H2 a) { return -a; }                                                                         \
    inline H2 __habs2(H2 a) { return H2(__habs(a.x), __habs(a.y)); }                                               \
    inline H2 __hmax2(H2 a, H2 b) { return H2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }                               \
    inline H2 __hmin2(H2 a, H2 b) { return H2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }                               \
    inline bool __hisnan(H a) { return __builtin_isnan((float)a); }                                                \
    inline int __hisinf(H a) { return __builtin_isinf_sign((float)a); }                                            \
    inline H2 __hisnan2(H2 a) { return H2(H(__hisnan(a.x)), H(__hisnan(a.y))); }                                   \
    CUPLUG_SMALL_FUNCTION(sqrt, H, H2, __builtin_sqrtf) CUPLUG_SMALL_FUNCTION(rsqrt, H, H2, 1.0f / __builtin_sqrtf) \
    CUPLUG_SMALL_FUNCTION(rcp, H, H2, 1.0f /) CUPLUG_SMALL_FUNCTION(exp, H, H2, __builtin_expf)                    \
    CUPLUG_SMALL_FUNCTION(exp2, H, H2, __builtin_exp2f) CUPLUG_SMALL_FUNCTION(exp10, H, H2, exp10f)                \
    CUPLUG_SMALL_FUNCTION(log, H, H2, __builtin_logf) CUPLUG_SMALL_FUNCTION(log2, H, H2, __builtin_log2f)          \
    CUPLUG_SMALL_FUNCTION(log10, H, H2, __builtin_log10f) CUPLUG_SMALL_FUNCTION(sin, H, H2, __builtin_sinf)        \
    CUPLUG_SMALL_FUNCTION(cos, H, H2, __builtin_cosf) CUPLUG_SMALL_FUNCTION(tanh, H, H2, __builtin_tanhf)          \
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
#define CUPLUG_SMALL_COMPARE(name, H, H2, op)                                                                      \
    inline bool __h##name(H a, H b) { return a op b; }                                                             \
    inline H2 __h##name##2(H2 a, H2 b) { return H2(H(a.x op b.x), H(a.y op b.y)); }                                \
    inline bool __hb##name##2(H2 a, H2 b) { return a.x op b.x && a.y op b.y; }
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
// The bits by themselves.
#define CUPLUG_SMALL_RAW(H, H2, raw, raw2)                                                     \
    struct raw {                                                                               \
        unsigned short x;                                                                      \
        raw() = default;                                                                       \
        raw(H value) : x(value.bits) {}                                                        \
        operator H() const { return __cuplug::bits<H>(x); }                                    \
    };                                                                                         \
    struct __attribute__((aligned(4))) raw2 {                                                  \
        unsigned short x, y;                                                                   \
        raw2() = default;                                                                      \
        raw2(H2 value) : x(value.x.bits), y(value.y.bits) {}                                   \
        operator H2() const { return H2(__cuplug::bits<H>(x), __cuplug::bits<H>(y)); }         \
    };
