// Two or four small integers in one word (CUDA Math API, "SIMD Intrinsics").
#pragma once

namespace __cuplug {

template <unsigned bits> struct Part;
template <> struct Part<8> { typedef signed char S; typedef unsigned char U; };
template <> struct Part<16> { typedef short S; typedef unsigned short U; };

// Applies `operation` to each pair of parts, as ints of the type T.
template <unsigned bits, class T, class F> inline unsigned by_parts(unsigned a, unsigned b, F operation) {
    unsigned result = 0;
    for (unsigned shift = 0; shift < 32; shift += bits) {
        int value = (int)operation((int)(T)(a >> shift), (int)(T)(b >> shift));
        result |= ((unsigned)value & ((1u << bits) - 1)) << shift;
    }
    return result;
}
template <class T> inline int clamped(int x) {
    const int least = (T)-1 < (T)0 ? -(1 << (sizeof(T) * 8 - 1)) : 0;
    const int greatest = least ? -least - 1 : (1 << sizeof(T) * 8) - 1;
    return x < least ? least : x > greatest ? greatest : x;
}
inline int distance(int x, int y) { return x > y ? x - y : y - x; }

}  // namespace __cuplug

#define CUPLUG_PARTS(name, n, type, expression)                                                               \
    inline unsigned name##n(unsigned a, unsigned b) {                                                         \
        typedef __cuplug::Part<32 / n>::type T;                                                               \
        return __cuplug::by_parts<32 / n, T>(a, b, [](int x, int y) { return expression; });                  \
    }
#define CUPLUG_PART(name, n, expression)                                                                      \
    inline unsigned name##n(unsigned a) {                                                                     \
        typedef __cuplug::Part<32 / n>::S T;                                                                  \
        return __cuplug::by_parts<32 / n, T>(a, a, [](int x, int) { return expression; });                    \
    }
#define CUPLUG_COMPARE(name, n, type, op)                                                                     \
    CUPLUG_PARTS(__vcmp##name, n, type, x op y ? -1 : 0)                                                      \
    CUPLUG_PARTS(__vset##name, n, type, x op y)
#define CUPLUG_SUM(name, n, type)                                                                             \
    inline unsigned name##n(unsigned a, unsigned b) {                                                         \
        typedef __cuplug::Part<32 / n>::type T;                                                               \
        unsigned total = 0;                                                                                   \
        for (int s = 0; s < 32; s += 32 / n) total += (unsigned)__cuplug::distance((T)(a >> s), (T)(b >> s)); \
        return total;                                                                                         \
    }
#define CUPLUG_SIMD(n)                                                                                        \
    CUPLUG_PARTS(__vadd, n, U, x + y) CUPLUG_PARTS(__vsub, n, U, x - y)                                       \
    CUPLUG_PARTS(__vaddss, n, S, __cuplug::clamped<T>(x + y)) CUPLUG_PARTS(__vsubss, n, S, __cuplug::clamped<T>(x - y)) \
    CUPLUG_PARTS(__vaddus, n, U, __cuplug::clamped<T>(x + y)) CUPLUG_PARTS(__vsubus, n, U, __cuplug::clamped<T>(x - y)) \
    CUPLUG_PARTS(__vavgs, n, S, (x + y + (x + y >= 0)) >> 1) CUPLUG_PARTS(__vavgu, n, U, (x + y + 1) >> 1)    \
    CUPLUG_PARTS(__vhaddu, n, U, (x + y) >> 1)                                                                \
    CUPLUG_PARTS(__vmaxs, n, S, x > y ? x : y) CUPLUG_PARTS(__vmaxu, n, U, x > y ? x : y)                     \
    CUPLUG_PARTS(__vmins, n, S, x < y ? x : y) CUPLUG_PARTS(__vminu, n, U, x < y ? x : y)                     \
    CUPLUG_PARTS(__vabsdiffs, n, S, __cuplug::distance(x, y)) CUPLUG_PARTS(__vabsdiffu, n, U, __cuplug::distance(x, y)) \
    CUPLUG_PART(__vabs, n, x < 0 ? -x : x) CUPLUG_PART(__vabsss, n, __cuplug::clamped<T>(x < 0 ? -x : x))     \
    CUPLUG_PART(__vneg, n, -x) CUPLUG_PART(__vnegss, n, __cuplug::clamped<T>(-x))                             \
    CUPLUG_SUM(__vsads, n, S) CUPLUG_SUM(__vsadu, n, U)                                                       \
    CUPLUG_COMPARE(eq, n, U, ==) CUPLUG_COMPARE(ne, n, U, !=)                                                 \
    CUPLUG_COMPARE(ges, n, S, >=) CUPLUG_COMPARE(geu, n, U, >=)                                               \
    CUPLUG_COMPARE(gts, n, S, >) CUPLUG_COMPARE(gtu, n, U, >)                                                 \
    CUPLUG_COMPARE(les, n, S, <=) CUPLUG_COMPARE(leu, n, U, <=)                                               \
    CUPLUG_COMPARE(lts, n, S, <) CUPLUG_COMPARE(ltu, n, U, <)
CUPLUG_SIMD(2)
CUPLUG_SIMD(4)
#undef CUPLUG_SIMD
#undef CUPLUG_SUM
#undef CUPLUG_COMPARE
#undef CUPLUG_PART
#undef CUPLUG_PARTS
