// What inline PTX becomes (ptx/assembly.py). Registers are unsigned numbers of 16, 32 or 64 bits, predicates are bool; an
// instruction reads a register as a number of its own type, and what it computes goes back as bits.
#pragma once
#include "half.h"
#include "rounding.h"
#include "simd.h"

namespace __ptx {
using __cuplug::bits;
using __cuplug::self;

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;
typedef float f32;
typedef double f64;

template <class T> struct Remove { typedef T type; };
template <class T> struct Remove<const T> { typedef T type; };
template <class T> struct Remove<volatile T> { typedef T type; };
template <class T> struct Remove<const volatile T> { typedef T type; };
template <class T> struct Remove<T&> { typedef typename Remove<T>::type type; };
template <class T> struct Remove<T&&> { typedef typename Remove<T>::type type; };
template <unsigned size> struct Unsigned;
template <> struct Unsigned<1> { typedef u8 type; };
template <> struct Unsigned<2> { typedef u16 type; };
template <> struct Unsigned<4> { typedef u32 type; };
template <> struct Unsigned<8> { typedef u64 type; };
template <class T> using Bits = typename Unsigned<sizeof(T)>::type;
template <class T> struct Signed;
template <> struct Signed<u8> { typedef s8 type; };
template <> struct Signed<u16> { typedef s16 type; };
template <> struct Signed<u32> { typedef s32 type; };
template <> struct Signed<u64> { typedef s64 type; };
template <class T> constexpr bool is_number = __cuplug::IsInteger<T>::value || __is_enum(T);
template <class T> constexpr bool is_signed = is_number<T> && (T)-1 < (T)0;

// Sixteen bits that are a floating-point number, computed as float.
struct f16 {
    u16 raw;
    f16() = default;
    explicit f16(float x) : raw(__cuplug::float_to_half(x)) {}
    operator float() const { return __cuplug::half_to_float(raw); }
};
struct bf16 {
    u16 raw;
    bf16() = default;
    explicit bf16(float x) : raw(__cuplug::float_to_bfloat(x)) {}
    operator float() const { return __cuplug::bfloat_to_float(raw); }
};
template <class H> struct Pair {
    H x, y;
    Pair() = default;
    Pair(H x, H y) : x(x), y(y) {}
};
typedef Pair<f16> f16x2;
typedef Pair<bf16> bf16x2;
template <class T> struct IsSmall { static constexpr bool value = false; };
template <> struct IsSmall<f16> { static constexpr bool value = true; };
template <> struct IsSmall<bf16> { static constexpr bool value = true; };
template <class T> constexpr bool is_floating = __cuplug::IsFloating<T>::value || IsSmall<T>::value;

// --- between registers, numbers and the operands of the program

template <class R, class V> __attribute__((always_inline)) inline R in(V value) {
    if constexpr (is_number<V> || sizeof(V) == 0) return (R)value;
    else if constexpr (sizeof(V) == sizeof(R)) return bits<R>(value);
    else return (R)bits<Bits<V>>(value);
}
template <class V, class R> __attribute__((always_inline)) inline void out(V&& variable, R from) {
    typedef typename Remove<V>::type T;
    if constexpr (is_number<T>) variable = (T)from;
    else if constexpr (__is_class(T) && !__is_trivially_copyable(T)) variable = from;
    else if constexpr (sizeof(T) == sizeof(R)) variable = bits<T>(from);
    else variable = bits<T>((Bits<T>)from);
}
template <class T, class R> __attribute__((always_inline)) inline T get(R from) {
    if constexpr (is_number<T>) return (T)from;
    else return bits<T>((Bits<T>)from);
}
template <class R, class T> __attribute__((always_inline)) inline void put(R& to, T value) {
    if constexpr (is_number<T>) to = (R)value;
    else to = (R)bits<Bits<T>>(value);
}
inline void put(bool& to, bool value) { to = value; }

// --- memory

using __cuplug::shared_address;

// A number in memory, whose address must be a multiple of its size.
template <class T> __attribute__((always_inline)) inline T& at(u64 address, int line = __builtin_LINE()) {
#if CUPLUG_CHECKED
    if (__builtin_expect(address % alignof(T) != 0, 0))
        self()->api->misaligned(address, alignof(T), "inline PTX", "", (u32)line);
#endif
    return *(T*)address;
}
template <class T, int n> struct alignas(sizeof(T) * n) Vector {
    T x[n];
};

inline void copy_async(u64 to, u64 from, u32 nbytes, u32 given, int line = __builtin_LINE()) {
    if (given == nbytes && nbytes == 16) at<Vector<u32, 4>>(to, line) = at<Vector<u32, 4>>(from, line);
    else if (given == nbytes && nbytes == 8) at<Vector<u32, 2>>(to, line) = at<Vector<u32, 2>>(from, line);
    else if (given == nbytes) at<u32>(to, line) = at<u32>(from, line);
    else
        for (u32 i = 0; i < nbytes; ++i) ((char*)to)[i] = i < given ? ((const char*)from)[i] : 0;
}

template <class T, class F> inline T update(T* address, F change) { return __cuplug::update(address, change); }

// --- arithmetic

template <class T> inline T add(T a, T b) {
    if constexpr (IsSmall<T>::value) return T((float)a + (float)b);
    else return (T)(a + b);
}
template <class T> inline T sub(T a, T b) {
    if constexpr (IsSmall<T>::value) return T((float)a - (float)b);
    else return (T)(a - b);
}
template <class T> inline T mul(T a, T b) {
    if constexpr (IsSmall<T>::value) return T((float)a * (float)b);
    else return (T)(a * b);
}
inline f32 fused(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
inline f64 fused(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
inline f16 fused(f16 a, f16 b, f16 c) { return f16(__builtin_fmaf(a, b, c)); }
inline bf16 fused(bf16 a, bf16 b, bf16 c) { return bf16(__builtin_fmaf(a, b, c)); }
inline u32 low(u32 a, u32 b) { return a * b; }

// Sums and differences with the carry (of a difference: the borrow) of a sum before.
template <class T> inline T add_carry(T a, T b, u32 with, u32& carry) {
    T sum, total;
    const bool first = __builtin_add_overflow(a, b, &sum), second = __builtin_add_overflow(sum, (T)with, &total);
    carry = first | second;
    return total;
}
template <class T> inline T sub_borrow(T a, T b, u32 with, u32& borrow) {
    T difference, total;
    const bool first = __builtin_sub_overflow(a, b, &difference);
    const bool second = __builtin_sub_overflow(difference, (T)with, &total);
    borrow = first | second;
    return total;
}
template <class T> inline T high(T a, T b) {
    if constexpr (sizeof(T) == 8 && is_signed<T>) return (T)((__int128)a * b >> 64);
    else if constexpr (sizeof(T) == 8) return (T)((unsigned __int128)a * b >> 64);
    else if constexpr (is_signed<T>) return (T)((s64)a * b >> (8 * sizeof(T)));
    else return (T)((u64)a * b >> (8 * sizeof(T)));
}
inline s32 of_24_bits(s32 x) { return (s32)((u32)x << 8) >> 8; }
inline u32 of_24_bits(u32 x) { return x & 0xffffffu; }
template <class T> inline T saturated_sum(T a, T b, bool minus) {
    T result;
    const bool over = minus ? __builtin_sub_overflow(a, b, &result) : __builtin_add_overflow(a, b, &result);
    if (!over) return result;
    return a < 0 ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)~((T)1 << (8 * sizeof(T) - 1));
}
// A division by zero gives all ones, as GPUs' routine for it does.
template <class T> inline T divide(T a, T b) {
    if (b == 0) return (T)-1;
    if (is_signed<T> && b == (T)-1) return (T)(0 - (u64)a);
    return (T)(a / b);
}
template <class T> inline T remainder(T a, T b) {
    if (b == 0) return a;
    if (is_signed<T> && b == (T)-1) return 0;
    return (T)(a % b);
}
template <class T> inline bool is_nan(T x) { return !(x == x); }
template <class T> inline T least(T a, T b) {
    if (is_nan(a)) return b;
    return is_nan(b) || a < b || (a == b && is_floating<T> && __builtin_signbit((double)a)) ? a : b;
}
template <class T> inline T greatest(T a, T b) {
    if (is_nan(a)) return b;
    return is_nan(b) || a > b || (a == b && is_floating<T> && !__builtin_signbit((double)a)) ? a : b;
}
template <class T> inline T nan_or(T a, T b, T otherwise) { return is_nan(a) ? a : is_nan(b) ? b : otherwise; }
template <class T> inline T absolute(T x) {
    if constexpr (is_floating<T>) return bits<T>((Bits<T>)(bits<Bits<T>>(x) & ((Bits<T>)-1 >> 1)));
    else return x < 0 ? (T)(0 - (u64)x) : x;
}
template <class T> inline T negative(T x) {
    if constexpr (is_floating<T>) return bits<T>((Bits<T>)(bits<Bits<T>>(x) ^ ~((Bits<T>)-1 >> 1)));
    else return (T)(0 - (u64)x);
}
// Of .ftz: a number too small to be normal counts as zero.
inline f32 flush(f32 x) { return __builtin_fabsf(x) < 1.17549435e-38f ? __builtin_copysignf(0.0f, x) : x; }
inline f16 flush(f16 x) { return x.raw & 0x7c00u ? x : bits<f16>((u16)(x.raw & 0x8000u)); }
inline f32 saturate(f32 x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline f64 saturate(f64 x) { return x > 0.0 ? (x < 1.0 ? x : 1.0) : 0.0; }
inline f16 saturate(f16 x) { return f16(saturate((f32)x)); }
inline bf16 saturate(bf16 x) { return bf16(saturate((f32)x)); }
template <class T> inline T relu(T x) { return is_nan(x) ? x : x > T(0.0f) ? x : T(0.0f); }

// The same for both numbers of a pair.
template <class H, class F> inline Pair<H> each(Pair<H> a, F f) { return {f(a.x), f(a.y)}; }
template <class H, class F> inline Pair<H> each(Pair<H> a, Pair<H> b, F f) { return {f(a.x, b.x), f(a.y, b.y)}; }
template <class H, class F> inline Pair<H> each(Pair<H> a, Pair<H> b, Pair<H> c, F f) {
    return {f(a.x, b.x, c.x), f(a.y, b.y, c.y)};
}

// --- bits

template <class T> inline T shift_left(T x, u32 count) { return count < 8 * sizeof(T) ? (T)(x << count) : (T)0; }
template <class T> inline T shift_right(T x, u32 count) {
    if (count >= 8 * sizeof(T)) return x < 0 ? (T)-1 : (T)0;
    return (T)(x >> count);
}
template <class T> inline T extract(T x, u32 position, u32 length) {
    typedef Bits<T> U;
    constexpr u32 top = 8 * sizeof(T) - 1;
    position &= 255u;
    length &= 255u;
    if (length == 0) return 0;
    const u32 last = position + length - 1 < top ? position + length - 1 : top;
    const bool sign = is_signed<T> && ((U)x >> last & 1u);
    U found = shift_right((U)x, position);
    if (length <= top) found &= ((U)1 << length) - 1;
    const u32 kept = position > top ? 0 : last - position + 1;
    if (sign && kept <= top) found |= (U)-1 << kept;
    return (T)found;
}
template <class T> inline T insert(T from, T into, u32 position, u32 length) {
    position &= 255u;
    length &= 255u;
    const T mask = shift_left((T)(length < 8 * sizeof(T) ? ((T)1 << length) - 1 : (T)-1), position);
    return (into & ~mask) | (shift_left(from, position) & mask);
}
inline u32 permute(u32 a, u32 b, u32 selector) {
    const u64 both = (u64)b << 32 | a;
    u32 result = 0;
    for (u32 i = 0; i < 4; ++i) {
        const u32 choice = selector >> 4 * i & 15u;
        u32 byte = (u32)(both >> 8 * (choice & 7u)) & 255u;
        if (choice & 8u) byte = byte & 128u ? 255u : 0u;  // its sign alone
        result |= byte << 8 * i;
    }
    return result;
}
template <class T> inline u32 highest(T x, bool as_shift) {
    Bits<T> value = (Bits<T>)(x < 0 ? ~x : x);
    if (!value) return ~0u;
    const u32 from_top = sizeof(T) == 8 ? (u32)__builtin_clzll(value) : (u32)__builtin_clz((u32)value);
    return as_shift ? from_top : (u32)(8 * sizeof(T) - 1) - from_top;
}
template <class A, class B> inline u32 dot4(u32 a, u32 b, u32 c) {
    for (u32 i = 0; i < 4; ++i) c += (u32)((s32)(A)(a >> 8 * i) * (s32)(B)(b >> 8 * i));
    return c;
}
template <class A, class B> inline u32 dot2(u32 a, u32 b, u32 c, u32 upper) {
    for (u32 i = 0; i < 2; ++i) c += (u32)((s32)(A)(a >> 16 * i) * (s32)(B)(b >> 8 * (2 * upper + i)));
    return c;
}

// --- conversions

enum Rounding { NEAREST, TO_ZERO, DOWN, UP, AWAY };

template <class T> constexpr T least_of = is_signed<T> ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0;
template <class T> constexpr T greatest_of = (T)~least_of<T>;
inline f64 to_integral(f64 x, Rounding rounding) {
    return rounding == NEAREST ? __builtin_rint(x)
         : rounding == TO_ZERO ? __builtin_trunc(x) : rounding == DOWN ? __builtin_floor(x) : __builtin_ceil(x);
}
// A half from a float, by cutting off.
inline f16 cut(f16*, f32 x) {
    f16 h(x);
    const bool beyond = __builtin_fabsf((float)h) > __builtin_fabsf(x) || ((h.raw & 0x7fffu) == 0x7c00u && !__builtin_isinf(x));
    if (beyond) --h.raw;
    return h;
}
inline bf16 cut(bf16*, f32 x) { return is_nan(x) ? bf16(x) : bits<bf16>((u16)(bits<u32>(x) >> 16)); }
inline int mode_of(Rounding rounding) {
    return rounding == TO_ZERO ? __cuplug::ROUND_TO_ZERO
         : rounding == DOWN ? __cuplug::ROUND_DOWN : rounding == UP ? __cuplug::ROUND_UP : __cuplug::ROUND_NEAREST;
}
// `within` of an integer: clamp to what the result can hold (PTX's .sat); a float to an integer is clamped in any case.
template <class To, class From> inline To convert(From x, Rounding rounding, bool within) {
    if constexpr (is_number<To> && is_number<From>) {
        if (within) {
            const __int128 wide = x;
            return wide < (__int128)least_of<To> ? least_of<To> : wide > (__int128)greatest_of<To> ? greatest_of<To> : (To)x;
        }
        return (To)x;
    } else if constexpr (is_number<To>) {
        const f64 value = to_integral((f64)x, rounding);
        if (!(value == value)) return sizeof(To) <= 4 && sizeof(From) <= 4 ? (To)0 : (To)((u64)1 << (8 * sizeof(To) - 1));
        return value <= (f64)least_of<To> ? least_of<To> : value >= (f64)greatest_of<To> ? greatest_of<To> : (To)value;
    } else if constexpr (IsSmall<To>::value) {
        return rounding == TO_ZERO ? cut((To*)nullptr, (f32)x) : To((f32)x);
    } else if constexpr (sizeof(From) < sizeof(To) || IsSmall<From>::value) {
        return (To)x;
    } else {
        return rounding == NEAREST ? (To)x : __cuplug::directed<To>(mode_of(rounding), x, [](From x) { return (To)x; });
    }
}
template <class T> inline T rounded(T x, Rounding rounding) { return T((f32)to_integral((f64)x, rounding)); }
inline f64 rounded(f64 x, Rounding rounding) { return to_integral(x, rounding); }
// Ten bits of fraction, ties away from zero (.rna) or to even.
inline u32 to_tf32(f32 x, Rounding rounding) {
    const u32 u = bits<u32>(x);
    if ((u & 0x7f800000u) == 0x7f800000u) return u;
    return rounding == AWAY ? (u + 0x1000u) & ~0x1fffu : rounding == TO_ZERO ? u & ~0x1fffu
                                                       : (u + 0xfffu + (u >> 13 & 1u)) & ~0x1fffu;
}

// --- threads

// What a shuffle gives, and whether its source was one of the lanes (PTX's p). `packed` holds the last lane and the mask
// of a segment.
inline u32 shuffle(u32 operation, u32 mask, u32 value, u32 by, u32 packed, bool converging, bool& there,
                   int line = __builtin_LINE()) {
    const u32 lane = __cuplug::lane(), segment = packed >> 8 & 31u, clamp = packed & 31u;
    const u32 first = lane & segment, last = first | (clamp & ~segment);
    by &= 31u;
    u32 source = lane;
    if (operation == __cuplug::COLLECT_SHUFFLE_UP) {
        source = lane - by;
        there = (int)source >= (int)last;
    } else {
        source = operation == __cuplug::COLLECT_SHUFFLE_DOWN ? lane + by
               : operation == __cuplug::COLLECT_SHUFFLE_XOR ? lane ^ by : first | (by & ~segment);
        there = source <= last;
    }
    if (!there) source = lane;
    return __cuplug::exchange<u32>(__cuplug::COLLECT_SHUFFLE, mask, value, source, 32, line, converging);
}

// Barriers of some of a block's threads, by number: `bar.sync 1, 64`.
struct NamedBarriers {
    u32 arrived[16], phase[16];
    static const __cuplug::Named* __cuplug_names() {
        static constexpr __cuplug::Named all[] = {__cuplug::named<char>("named barriers", 0), {}};
        return all;
    }
};
CUPLUG_SILENT inline NamedBarriers& named_barriers() {
    const __cuplug::SharedSlot* slots = self()->slots;
    const u32 number = __atomic_load_n(&__cuplug::SlotOf<NamedBarriers>::number, __ATOMIC_RELAXED);
    const bool begun = number && slots[number].block == self()->block;
    NamedBarriers& barriers = __cuplug::shared<NamedBarriers>();
    if (!begun) __builtin_memset(&barriers, 0, sizeof barriers);
    return barriers;
}
inline void meet(u32 number, u32 count, bool waits, int line = __builtin_LINE()) {
    if (number == 0 && waits && count >= self()->thread_count) {  // __syncthreads()
        __cuplug::barrier(line, 0, 0);
        return;
    }
    NamedBarriers& barriers = named_barriers();
    u32 *arrived = &barriers.arrived[number & 15u], *phase = &barriers.phase[number & 15u];
    const u32 before = __atomic_load_n(phase, __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(arrived, 1u, __ATOMIC_SEQ_CST) == count) {
        __atomic_store_n(arrived, 0u, __ATOMIC_SEQ_CST);
        __atomic_add_fetch(phase, 1u, __ATOMIC_SEQ_CST);
    } else if (waits) {
        while (__atomic_load_n(phase, __ATOMIC_SEQ_CST) == before) self()->api->yield();
    }
}
[[noreturn]] inline void unsupported(const char* what) { self()->api->stop(__cuplug::FAULT_ILLEGAL_INSTRUCTION, what); }

}  // namespace __ptx
