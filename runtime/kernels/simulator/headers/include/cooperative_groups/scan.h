#pragma once
#ifdef CUPLUG_SCAN
#include "reduce.h"
#pragma cuplug_include cooperative_groups/scan.h
#else
namespace cooperative_groups {

template <class Group, class T, class F> inline T inclusive_scan(const Group& group, T value, F combine, int line = __builtin_LINE()) {
    static_assert(__details::is_same<decltype(combine(value, value)), T>, "the operation's result must be of the values' type");
    const unsigned rank = group.thread_rank();
    T total = value;
    for (unsigned delta = 1; delta < group.size(); delta *= 2) {
        T before = __details::value_of(group, __cuplug::TILE_SCAN, total, rank >= delta ? rank - delta : rank, line);
        if (rank >= delta) total = combine(before, total);
    }
    return total;
}
template <class Group, class T> inline T inclusive_scan(const Group& group, T value, int line = __builtin_LINE()) {
    return inclusive_scan(group, value, plus<T>(), line);
}
template <class Group, class T, class F> inline T exclusive_scan(const Group& group, T value, F combine, int line = __builtin_LINE()) {
    const unsigned rank = group.thread_rank();
    T total = inclusive_scan(group, value, combine, line);
    T before = __details::value_of(group, __cuplug::TILE_SCAN, total, rank ? rank - 1 : 0, line);
    return rank ? before : T();
}
template <class Group, class T> inline T exclusive_scan(const Group& group, T value, int line = __builtin_LINE()) {
    return exclusive_scan(group, value, plus<T>(), line);
}

}  // namespace cooperative_groups
#endif
