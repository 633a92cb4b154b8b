#pragma once
#ifdef CUPLUG_SCAN
#include "../cooperative_groups.h"
#pragma cuplug_include cooperative_groups/reduce.h
#else
namespace cooperative_groups {

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

template <class Group, class T, class F> inline T reduce(const Group& group, T value, F combine, int line = __builtin_LINE()) {
    static_assert(__details::is_same<decltype(combine(value, value)), T>, "the operation's result must be of the values' type");
    const unsigned rank = group.thread_rank();
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        const bool is_there = rank + delta < group.size();
        T other = __details::value_of(group, __cuplug::TILE_REDUCE, value, is_there ? rank + delta : rank, line);
        if (is_there) value = combine(value, other);
    }
    return __details::value_of(group, __cuplug::TILE_REDUCE, value, 0, line);
}

}  // namespace cooperative_groups
#endif
