// Copies by a group. They are done at once here; the group meets where it waits for them.
#pragma once
#ifdef CUPLUG_SCAN
#include "../cooperative_groups.h"
#pragma cuplug_include cooperative_groups/memcpy_async.h
#else
namespace cooperative_groups {

template <class Group, class D, class S>
inline void memcpy_async(const Group& group, D* to, const S* from, cuplug_size nbytes) {
    char* target = (char*)to;
    const char* source = (const char*)from;
    cuplug_size share = (nbytes + group.size() - 1) / group.size(), begin = share * group.thread_rank();
    for (cuplug_size i = begin; i < begin + share && i < nbytes; ++i) target[i] = source[i];
}
// With the room for elements at either side.
template <class Group, class T>
inline void memcpy_async(const Group& group, T* to, cuplug_size room, const T* from, cuplug_size count) {
    memcpy_async(group, to, from, (room < count ? room : count) * sizeof(T));
}
template <class Group> inline void wait(const Group& group, int line = __builtin_LINE()) { group.sync(line); }
template <unsigned Stage, class Group> inline void wait_prior(const Group& group, int line = __builtin_LINE()) {
    group.sync(line);
}

}  // namespace cooperative_groups
#endif
