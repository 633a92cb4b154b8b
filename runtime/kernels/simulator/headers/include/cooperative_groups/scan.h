#pragma once
#ifdef CUPLUG_SCAN
#include "reduce.h"
#pragma cuplug_include cooperative_groups/scan.h
#else
namespace cooperative_groups {

template <class Group, class T, class F> inline T inclusive_scan(const Group& group, T value, F combine, int line = __builtin_LINE()) {
    T total = value;
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        T before = group.shfl_up(total, delta, line);
        if (group.thread_rank() >= delta) total = combine(before, total);
    }
    return total;
}
template <class Group, class T> inline T inclusive_scan(const Group& group, T value, int line = __builtin_LINE()) {
    return inclusive_scan(group, value, plus<T>(), line);
}
template <class Group, class T, class F> inline T exclusive_scan(const Group& group, T value, F combine, int line = __builtin_LINE()) {
    T before = group.shfl_up(inclusive_scan(group, value, combine, line), 1, line);
    return group.thread_rank() ? before : T();
}
template <class Group, class T> inline T exclusive_scan(const Group& group, T value, int line = __builtin_LINE()) {
    return exclusive_scan(group, value, plus<T>(), line);
}

}  // namespace cooperative_groups
#endif
