// Shifts by as many bits as a number has, and by more: CUDA's hardware gives 0, or copies of the sign, where C++ says
// nothing and this machine shifts by what is left of the count. translate.py makes `a << shift << b` of `a << b`, which
// has the same precedence, and `a <<= shift <<= b` of `a <<= b`.
#pragma once

namespace __cuplug {

struct Shift {};
static constexpr Shift shift{};

template <class T> struct Unreferenced { typedef T type; };
template <class T> struct Unreferenced<T&> { typedef T type; };
template <class T> struct Unreferenced<T&&> { typedef T type; };
template <class T> struct IsNumber {
    typedef typename Plain<typename Unreferenced<T>::type>::type P;
    static constexpr bool value = IsInteger<P>::value || __is_enum(P);
};

template <class T> struct Left { T value; };          // a number, promoted
template <class T> struct Other { T&& value; };       // what has a shift of its own
template <class C> struct Count { C value; };

template <class C> __attribute__((always_inline)) constexpr cuplug_u64 bits_of_count(C count) {
    return sizeof(C) <= 4 ? (cuplug_u64)(cuplug_u32)count : (cuplug_u64)count;
}
template <class T, class C> __attribute__((always_inline)) constexpr T shift_left(T value, C count) {
    const cuplug_u64 bits = bits_of_count(count);
    return bits < sizeof(T) * 8 ? (T)(value << bits) : (T)0;
}
template <class T, class C> __attribute__((always_inline)) constexpr T shift_right(T value, C count) {
    const cuplug_u64 bits = bits_of_count(count);
    return bits < sizeof(T) * 8 ? (T)(value >> bits) : value < (T)0 ? (T)-1 : (T)0;
}

template <class T> __attribute__((always_inline)) constexpr auto operator<<(T&& a, Shift) {
    if constexpr (IsNumber<T>::value) return Left<decltype(+a)>{+a};
    else return Other<T>{static_cast<T&&>(a)};
}
template <class T> __attribute__((always_inline)) constexpr auto operator>>(T&& a, Shift) {
    if constexpr (IsNumber<T>::value) return Left<decltype(+a)>{+a};
    else return Other<T>{static_cast<T&&>(a)};
}
template <class T, class C> __attribute__((always_inline)) constexpr decltype(auto) operator<<(Left<T> a, C&& count) {
    if constexpr (IsNumber<C>::value) return shift_left(a.value, +count);
    else return a.value << static_cast<C&&>(count);
}
template <class T, class C> __attribute__((always_inline)) constexpr decltype(auto) operator>>(Left<T> a, C&& count) {
    if constexpr (IsNumber<C>::value) return shift_right(a.value, +count);
    else return a.value >> static_cast<C&&>(count);
}
template <class T, class C> __attribute__((always_inline)) constexpr decltype(auto) operator<<(Other<T> a, C&& count) {
    return static_cast<T&&>(a.value) << static_cast<C&&>(count);
}
template <class T, class C> __attribute__((always_inline)) constexpr decltype(auto) operator>>(Other<T> a, C&& count) {
    return static_cast<T&&>(a.value) >> static_cast<C&&>(count);
}
template <class C> __attribute__((always_inline)) constexpr auto operator<<=(Shift, C&& count) { return Count<C&&>{static_cast<C&&>(count)}; }
template <class C> __attribute__((always_inline)) constexpr auto operator>>=(Shift, C&& count) { return Count<C&&>{static_cast<C&&>(count)}; }
template <class T, class C> __attribute__((always_inline)) constexpr decltype(auto) operator<<=(T& a, Count<C> count) {
    if constexpr (IsNumber<T>::value && IsNumber<C>::value) return a = (T)shift_left(+a, +count.value);
    else return a <<= static_cast<C>(count.value);
}
template <class T, class C> __attribute__((always_inline)) constexpr decltype(auto) operator>>=(T& a, Count<C> count) {
    if constexpr (IsNumber<T>::value && IsNumber<C>::value) return a = (T)shift_right(+a, +count.value);
    else return a >>= static_cast<C>(count.value);
}

}  // namespace __cuplug
