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
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        T other = group.shfl_down(value, delta, line);
        if (group.thread_rank() + delta < group.size()) value = combine(value, other);
    }
    return group.shfl(value, 0, line);
}

}  // namespace cooperative_groups
#endif
