// Casts of floating-point numbers to integers that cannot hold them: CUDA's hardware gives the nearest integer of four
// or eight bytes, and cuts that where fewer are wanted (PTX ISA, "cvt"), where C++ says nothing and this machine gives
// the lowest integer. integer_casts.py makes `(int)(Cast<int>)x` of `(int)x`, and `to_integer<int>(x)` of `int(x)`.
#pragma once

namespace __cuplug {

template <class T> constexpr bool is_half = false;  // half.h: they become integers of their size, and no wider ones

template <class T> struct Wide { typedef T type; };
template <> struct Wide<char> { typedef int type; };
template <> struct Wide<signed char> { typedef int type; };
template <> struct Wide<short> { typedef int type; };
template <> struct Wide<unsigned char> { typedef unsigned type; };
template <> struct Wide<unsigned short> { typedef unsigned type; };

template <class T, class F> __attribute__((always_inline)) constexpr T nearest_integer(F x) {
    constexpr bool is_signed = (T)-1 < (T)0;
    constexpr int digits = sizeof(T) * 8 - is_signed;
    constexpr T lowest = is_signed ? (T)((cuplug_u64)1 << digits) : (T)0;
    constexpr F least = is_signed ? -(F)((cuplug_u64)1 << (digits - 1)) * 2 : (F)0;
    constexpr F behind = (F)((cuplug_u64)1 << (digits - 1)) * 2;
    constexpr T of_nan = sizeof(T) <= 4 && sizeof(F) == 4 ? (T)0 : (T)((cuplug_u64)1 << (sizeof(T) * 8 - 1));
    return x >= least && x < behind ? (T)x : x != x ? of_nan : x < least ? lowest : (T)~lowest;
}

template <class T, class V> __attribute__((always_inline)) constexpr T to_integer(V value) {
    if constexpr (!IsInteger<T>::value) return (T)value;
    else if constexpr (IsFloating<V>::value) return (T)nearest_integer<typename Wide<T>::type, V>(value);
    else if constexpr (is_half<V>) return nearest_integer<T, float>((float)value);
    else return (T)value;
}

template <class T> struct Cast {
    T value;
    template <class V> __attribute__((always_inline)) constexpr Cast(V x) : value(to_integer<T, V>(x)) {}
    __attribute__((always_inline)) constexpr operator T() const { return value; }
};

}  // namespace __cuplug
