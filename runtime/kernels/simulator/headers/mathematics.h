// The mathematical functions of CUDA for float, double and integers (CUDA C++ Programming Guide, "Mathematical Functions").
#pragma once

namespace __cuplug {
template <bool> struct If {};
template <> struct If<true> { typedef int yes; };
template <class T> struct IsInteger { static constexpr bool value = false; };
#define CUPLUG_INTEGER(T) template <> struct IsInteger<T> { static constexpr bool value = true; };
CUPLUG_INTEGER(bool) CUPLUG_INTEGER(char) CUPLUG_INTEGER(signed char) CUPLUG_INTEGER(unsigned char)
CUPLUG_INTEGER(short) CUPLUG_INTEGER(unsigned short) CUPLUG_INTEGER(int) CUPLUG_INTEGER(unsigned int)
CUPLUG_INTEGER(long) CUPLUG_INTEGER(unsigned long) CUPLUG_INTEGER(long long) CUPLUG_INTEGER(unsigned long long)
#undef CUPLUG_INTEGER
template <class T> struct IsFloating { static constexpr bool value = false; };
template <> struct IsFloating<float> { static constexpr bool value = true; };
template <> struct IsFloating<double> { static constexpr bool value = true; };
template <class A, class B> struct IsSame { static constexpr bool value = false; };
template <class A> struct IsSame<A, A> { static constexpr bool value = true; };
// Two arithmetic types that are not both float: the overload for double.
template <class A, class B> struct Mixed {
    static constexpr bool value = (IsInteger<A>::value || IsFloating<A>::value) &&
                                  (IsInteger<B>::value || IsFloating<B>::value) && !IsSame<A, B>::value;
};
template <class A, class B> struct BothIntegers {
    static constexpr bool value = IsInteger<A>::value && IsSame<A, B>::value;
};
}  // namespace __cuplug

#if defined(__clang__)
#define CUPLUG_CONSTEXPR  // its builtins are no constant expressions
#else
#define CUPLUG_CONSTEXPR constexpr
#endif
#define CUPLUG_UNARY(name)                                                                         \
    extern "C" double name(double) noexcept;                                                       \
    extern "C" float name##f(float) noexcept;                                                      \
    inline CUPLUG_CONSTEXPR float name(float x) { return __builtin_##name##f(x); }                 \
    template <class T, typename __cuplug::If<__cuplug::IsInteger<T>::value>::yes = 0>              \
    inline CUPLUG_CONSTEXPR double name(T x) { return __builtin_##name((double)x); }
CUPLUG_UNARY(sin) CUPLUG_UNARY(cos) CUPLUG_UNARY(tan) CUPLUG_UNARY(asin) CUPLUG_UNARY(acos) CUPLUG_UNARY(atan)
CUPLUG_UNARY(sinh) CUPLUG_UNARY(cosh) CUPLUG_UNARY(tanh) CUPLUG_UNARY(asinh) CUPLUG_UNARY(acosh) CUPLUG_UNARY(atanh)
CUPLUG_UNARY(exp) CUPLUG_UNARY(exp2) CUPLUG_UNARY(expm1) CUPLUG_UNARY(log) CUPLUG_UNARY(log2) CUPLUG_UNARY(log10)
CUPLUG_UNARY(log1p) CUPLUG_UNARY(sqrt) CUPLUG_UNARY(cbrt) CUPLUG_UNARY(erf) CUPLUG_UNARY(erfc) CUPLUG_UNARY(tgamma)
CUPLUG_UNARY(lgamma) CUPLUG_UNARY(ceil) CUPLUG_UNARY(floor) CUPLUG_UNARY(trunc) CUPLUG_UNARY(round) CUPLUG_UNARY(rint)
CUPLUG_UNARY(nearbyint) CUPLUG_UNARY(fabs) CUPLUG_UNARY(logb) 
#undef CUPLUG_UNARY

#define CUPLUG_BESSEL(name)                      \
    extern "C" double name(double) noexcept;     \
    extern "C" float name##f(float) noexcept;    \
    inline float name(float x) { return name##f(x); }
CUPLUG_BESSEL(j0) CUPLUG_BESSEL(j1) CUPLUG_BESSEL(y0) CUPLUG_BESSEL(y1)
#undef CUPLUG_BESSEL

#define CUPLUG_BINARY(name)                                                                        \
    extern "C" double name(double, double) noexcept;                                               \
    extern "C" float name##f(float, float) noexcept;                                               \
    inline CUPLUG_CONSTEXPR float name(float x, float y) { return __builtin_##name##f(x, y); }     \
    template <class A, class B, typename __cuplug::If<__cuplug::Mixed<A, B>::value ||              \
                                                      __cuplug::BothIntegers<A, B>::value>::yes = 0> \
    inline double name(A x, B y) { return __builtin_##name((double)x, (double)y); }
CUPLUG_BINARY(pow) CUPLUG_BINARY(atan2) CUPLUG_BINARY(fmod) CUPLUG_BINARY(hypot) CUPLUG_BINARY(copysign)
CUPLUG_BINARY(fmax) CUPLUG_BINARY(fmin) CUPLUG_BINARY(fdim) CUPLUG_BINARY(remainder) CUPLUG_BINARY(nextafter)
#undef CUPLUG_BINARY

#define CUPLUG_WITH_INT(name, R, P)                       \
    extern "C" R name(double, P) noexcept;                \
    extern "C" float name##f(float, P) noexcept;          \
    inline float name(float x, P n) { return __builtin_##name##f(x, n); }
CUPLUG_WITH_INT(ldexp, double, int)
CUPLUG_WITH_INT(scalbn, double, int)
CUPLUG_WITH_INT(scalbln, double, long)
CUPLUG_WITH_INT(frexp, double, int*)
#undef CUPLUG_WITH_INT

#define CUPLUG_TO_INT(name, R)                            \
    extern "C" R name(double) noexcept;                   \
    extern "C" R name##f(float) noexcept;                 \
    inline R name(float x) { return __builtin_##name##f(x); }
CUPLUG_TO_INT(ilogb, int)
CUPLUG_TO_INT(lrint, long)
CUPLUG_TO_INT(lround, long)
CUPLUG_TO_INT(llrint, long long)
CUPLUG_TO_INT(llround, long long)
#undef CUPLUG_TO_INT

extern "C" {
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
double remquo(double, double, int*) noexcept;
float remquof(float, float, int*) noexcept;
double jn(int, double) noexcept;
float jnf(int, float) noexcept;
double yn(int, double) noexcept;
float ynf(int, float) noexcept;
int abs(int) noexcept;
long labs(long) noexcept;
long long llabs(long long) noexcept;
double nan(const char*) noexcept;
float nanf(const char*) noexcept;
}
inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float modf(float x, float* whole) { return __builtin_modff(x, whole); }
inline float remquo(float x, float y, int* quotient) { return __builtin_remquof(x, y, quotient); }
inline float abs(float x) { return __builtin_fabsf(x); }
inline double abs(double x) { return __builtin_fabs(x); }
inline long abs(long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return x < 0 ? -x : x; }

inline double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
inline float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline double rcbrt(double x) { return 1.0 / __builtin_cbrt(x); }
inline float rcbrtf(float x) { return 1.0f / __builtin_cbrtf(x); }
inline double exp10(double x) { return __builtin_pow(10.0, x); }
inline float exp10f(float x) { return (float)__builtin_pow(10.0, (double)x); }
inline float exp10(float x) { return exp10f(x); }
inline float fdividef(float x, float y) { return x / y; }
inline double norm3d(double a, double b, double c) { return __builtin_sqrt(a * a + b * b + c * c); }
inline float norm3df(float a, float b, float c) { return __builtin_sqrtf(a * a + b * b + c * c); }
inline double norm4d(double a, double b, double c, double d) { return __builtin_sqrt(a * a + b * b + c * c + d * d); }
inline float norm4df(float a, float b, float c, float d) { return __builtin_sqrtf(a * a + b * b + c * c + d * d); }
inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
inline float rnorm3df(float a, float b, float c) { return 1.0f / norm3df(a, b, c); }
inline double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
inline float rnorm4df(float a, float b, float c, float d) { return 1.0f / norm4df(a, b, c, d); }
inline double norm(int n, const double* p) {
    double total = 0.0;
    for (int i = 0; i < n; ++i) total += p[i] * p[i];
    return __builtin_sqrt(total);
}
inline float normf(int n, const float* p) {
    float total = 0.0f;
    for (int i = 0; i < n; ++i) total += p[i] * p[i];
    return __builtin_sqrtf(total);
}
inline double rnorm(int n, const double* p) { return 1.0 / norm(n, p); }
inline float rnormf(int n, const float* p) { return 1.0f / normf(n, p); }
inline double rhypot(double a, double b) { return 1.0 / __builtin_hypot(a, b); }
inline float rhypotf(float a, float b) { return 1.0f / __builtin_hypotf(a, b); }
inline double normcdf(double x) { return 0.5 * __builtin_erfc(-x * M_SQRT1_2); }
inline float normcdff(float x) { return (float)normcdf((double)x); }

// sin(pi x) and cos(pi x), exact at multiples of one half.
inline double sinpi(double x) {
    double r = __builtin_fmod(x, 2.0);
    if (r > 1.0) r -= 2.0;
    if (r < -1.0) r += 2.0;
    if (r > 0.5) r = 1.0 - r;
    if (r < -0.5) r = -1.0 - r;
    return __builtin_sin(M_PI * r);
}
inline double cospi(double x) {
    double r = __builtin_fabs(__builtin_fmod(x, 2.0));
    if (r > 1.0) r = 2.0 - r;
    return r == 0.5 ? 0.0 : __builtin_cos(M_PI * r);
}
inline float sinpif(float x) { return (float)sinpi((double)x); }
inline float cospif(float x) { return (float)cospi((double)x); }
inline float sinpi(float x) { return sinpif(x); }
inline float cospi(float x) { return cospif(x); }
inline void sincos(double x, double* s, double* c) { *s = __builtin_sin(x); *c = __builtin_cos(x); }
inline void sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x); *c = __builtin_cosf(x); }
inline void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
inline void sincospi(double x, double* s, double* c) { *s = sinpi(x); *c = cospi(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x); *c = cospif(x); }
inline void sincospi(float x, float* s, float* c) { sincospif(x, s, c); }

// exp(x * x) * erfc(x): by a continued fraction where the factors are out of range.
inline double erfcx(double x) {
    if (x < 25.0) return __builtin_exp(x * x) * __builtin_erfc(x);
    double fraction = x;
    for (int i = 8; i > 0; --i) fraction = x + 0.5 * i / fraction;
    return M_2_SQRTPI / 2.0 / fraction;
}
inline float erfcxf(float x) { return (float)erfcx((double)x); }

// erfinv by Newton's method from Winitzki's approximation: on erf, and on the logarithm of erfc where that is small.
inline double erfcinv(double y);
inline double erfinv(double y) {
    if (__builtin_fabs(y) > 0.5) return __builtin_copysign(erfcinv(1.0 - __builtin_fabs(y)), y);
    double a = 0.147, l = __builtin_log1p(-y * y), t = 2.0 / (M_PI * a) + 0.5 * l;
    double x = __builtin_copysign(__builtin_sqrt(__builtin_sqrt(t * t - l / a) - t), y);
    for (int i = 0; i < 4; ++i) x -= (__builtin_erf(x) - y) / (M_2_SQRTPI * __builtin_exp(-x * x));
    return x;
}
inline float erfinvf(float y) { return (float)erfinv((double)y); }
inline double erfcinv(double y) {
    if (!(y > 0.0 && y < 2.0)) return y == 0.0 ? INFINITY : y == 2.0 ? -INFINITY : NAN;
    if (y >= 0.5) return y > 1.5 ? -erfcinv(2.0 - y) : erfinv(1.0 - y);
    double a = 0.147, small = __builtin_log(y), l = small + __builtin_log(2.0 - y), t = 2.0 / (M_PI * a) + 0.5 * l;
    double x = __builtin_sqrt(__builtin_sqrt(t * t - l / a) - t);
    for (int i = 0; i < 4; ++i) x += (__builtin_log(erfcx(x)) - x * x - small) * erfcx(x) / M_2_SQRTPI;
    return x;
}
inline float erfcinvf(float y) { return (float)erfcinv((double)y); }
inline double normcdfinv(double p) { return -M_SQRT2 * erfcinv(2.0 * p); }
inline float normcdfinvf(float p) { return (float)normcdfinv((double)p); }

// Modified Bessel functions of the first kind: the power series, whose terms are all positive.
namespace __cuplug {
inline double bessel_i(double x, double term, int order) {
    double total = term;
    for (int k = 1; k < 1000 && term > total * 1e-17; ++k) total += term *= x * x / 4.0 / ((double)k * (k + order));
    return total;
}
}  // namespace __cuplug
inline double cyl_bessel_i0(double x) { return __cuplug::bessel_i(x, 1.0, 0); }
inline double cyl_bessel_i1(double x) {
    double size = __cuplug::bessel_i(x, __builtin_fabs(x) / 2.0, 1);
    return x < 0.0 ? -size : size;
}
inline float cyl_bessel_i0f(float x) { return (float)cyl_bessel_i0((double)x); }
inline float cyl_bessel_i1f(float x) { return (float)cyl_bessel_i1((double)x); }

#undef isnan
#undef isinf
#undef isfinite
#undef signbit
#define CUPLUG_CLASSIFY(T)                                                  \
    inline constexpr bool isnan(T x) { return __builtin_isnan(x); }         \
    inline constexpr bool isinf(T x) { return __builtin_isinf(x) != 0; }    \
    inline constexpr bool isfinite(T x) { return __builtin_isfinite(x); }   \
    inline constexpr bool signbit(T x) { return __builtin_signbit(x) != 0; }
inline int __isnanf(float x) { return __builtin_isnan(x); }
inline int __isinff(float x) { return __builtin_isinf(x) != 0; }
inline int __finitef(float x) { return __builtin_isfinite(x); }
inline int __signbitf(float x) { return __builtin_signbit(x) != 0; }
inline int __isnand(double x) { return __builtin_isnan(x); }
inline int __isinfd(double x) { return __builtin_isinf(x) != 0; }
inline int __isfinited(double x) { return __builtin_isfinite(x); }
inline int __signbitd(double x) { return __builtin_signbit(x) != 0; }
CUPLUG_CLASSIFY(float)
CUPLUG_CLASSIFY(double)
#undef CUPLUG_CLASSIFY

#define CUPLUG_MIN_MAX(A, B, R)                                             \
    inline constexpr R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }  \
    inline constexpr R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
#define CUPLUG_MIN_MAX_MIXED(S, U) CUPLUG_MIN_MAX(S, S, S) CUPLUG_MIN_MAX(U, U, U) CUPLUG_MIN_MAX(S, U, U) CUPLUG_MIN_MAX(U, S, U)
CUPLUG_MIN_MAX_MIXED(int, unsigned int)
CUPLUG_MIN_MAX_MIXED(long, unsigned long)
CUPLUG_MIN_MAX_MIXED(long long, unsigned long long)
#undef CUPLUG_MIN_MAX_MIXED
#undef CUPLUG_MIN_MAX
#define CUPLUG_MIN_MAX(A, B, R, f)                                          \
    inline R min(A a, B b) { return __builtin_fmin##f(a, b); }              \
    inline R max(A a, B b) { return __builtin_fmax##f(a, b); }
CUPLUG_MIN_MAX(float, float, float, f)
CUPLUG_MIN_MAX(double, double, double, )
CUPLUG_MIN_MAX(float, double, double, )
CUPLUG_MIN_MAX(double, float, double, )
#undef CUPLUG_MIN_MAX
inline constexpr unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
inline constexpr unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
inline constexpr long long llmin(long long a, long long b) { return a < b ? a : b; }
inline constexpr long long llmax(long long a, long long b) { return a > b ? a : b; }
inline constexpr unsigned long long ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
inline constexpr unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
