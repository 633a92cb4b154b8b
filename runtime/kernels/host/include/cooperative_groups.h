// The parts of cooperative groups that one block can carry out: thread blocks, tiles of a warp, coalesced groups.
#pragma once
#ifdef CUPLUG_SCAN
#pragma cuplug_include cooperative_groups.h
#else
namespace cooperative_groups {

struct thread_group {
    unsigned mask, lanes, rank_, kind;  // kind 0: block, 1: lanes of a warp
    unsigned size() const { return lanes; }
    unsigned num_threads() const { return lanes; }
    unsigned thread_rank() const { return rank_; }
    void sync(int line = __builtin_LINE()) const {
        if (kind) __syncwarp(mask, line);
        else __syncthreads(line);
    }
};

struct thread_block : thread_group {
    static dim3 group_index() { return dim3(__cuplug_blockIdx); }
    static dim3 thread_index() { return dim3(__cuplug_threadIdx); }
    static dim3 group_dim() { return __cuplug_blockDim; }
    static dim3 dim_threads() { return __cuplug_blockDim; }
    static unsigned size() { return __cuplug::self()->thread_count; }
    static unsigned num_threads() { return __cuplug::self()->thread_count; }
    static unsigned thread_rank() { return __cuplug::self()->thread; }
    static void sync(int line = __builtin_LINE()) { __syncthreads(line); }
};
inline thread_block this_thread_block() {
    thread_block block;
    block.mask = 0;
    block.lanes = __cuplug::self()->thread_count;
    block.rank_ = __cuplug::self()->thread;
    block.kind = 0;
    return block;
}

struct grid_group {
    static bool is_valid() { return false; }
    static dim3 group_dim() { return __cuplug_gridDim; }
    static unsigned long long size() {
        dim3 g = __cuplug_gridDim;
        return (unsigned long long)g.x * g.y * g.z * __cuplug::self()->thread_count;
    }
    static unsigned long long num_threads() { return size(); }
    static unsigned long long thread_rank() {
        dim3 g = __cuplug_gridDim;
        uint3 b = __cuplug_blockIdx;
        return (((unsigned long long)b.z * g.y + b.y) * g.x + b.x) * __cuplug::self()->thread_count + __cuplug::self()->thread;
    }
    static void sync() {
        __cuplug::self()->api->stop(__cuplug::FAULT_LAUNCH_FAILED, "the simulator does not support grid-wide synchronisation");
    }
};
inline grid_group this_grid() { return {}; }

namespace __details {
template <class Derived> struct warp_functions {
    const Derived& group() const { return *(const Derived*)this; }
    template <class T> T shfl(T value, unsigned rank, int line = __builtin_LINE()) const {
        return __shfl_sync(group().lane_mask(), value, (int)group().lane_of(rank), 32, line);
    }
    int any(int predicate, int line = __builtin_LINE()) const { return __any_sync(group().lane_mask(), predicate, line); }
    int all(int predicate, int line = __builtin_LINE()) const { return __all_sync(group().lane_mask(), predicate, line); }
    void sync(int line = __builtin_LINE()) const { __syncwarp(group().lane_mask(), line); }
};
}  // namespace __details

template <unsigned Size, class Parent = void> struct thread_block_tile : thread_block_tile<Size, void> {};
template <unsigned Size>
struct thread_block_tile<Size, void> : thread_group, __details::warp_functions<thread_block_tile<Size, void>> {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "tiles have 1, 2, 4, 8, 16 or 32 threads here");
    using functions = __details::warp_functions<thread_block_tile<Size, void>>;
    using functions::sync;
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return __cuplug::lane() & (Size - 1); }
    static unsigned meta_group_rank() { return __cuplug::self()->thread / Size; }
    static unsigned meta_group_size() { return (__cuplug::self()->thread_count + Size - 1) / Size; }
    static unsigned base() { return __cuplug::lane() & ~(Size - 1); }
    static unsigned lane_mask() { return (unsigned)(((1ull << Size) - 1) << base()); }
    static unsigned lane_of(unsigned rank) { return base() + (rank & (Size - 1)); }
    template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return __shfl_up_sync(lane_mask(), value, delta, Size, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return __shfl_down_sync(lane_mask(), value, delta, Size, line);
    }
    template <class T> T shfl_xor(T value, unsigned lanes, int line = __builtin_LINE()) const {
        return __shfl_xor_sync(lane_mask(), value, (int)lanes, Size, line);
    }
    unsigned ballot(int predicate, int line = __builtin_LINE()) const {
        return __ballot_sync(lane_mask(), predicate, line) >> base();
    }
    template <class T> unsigned match_any(T value, int line = __builtin_LINE()) const {
        return __match_any_sync(lane_mask(), value, line) >> base();
    }
};

struct coalesced_group : thread_group, __details::warp_functions<coalesced_group> {
    using __details::warp_functions<coalesced_group>::sync;
    unsigned lane_mask() const { return mask; }
    unsigned lane_of(unsigned rank) const {
        unsigned rest = mask;
        while (rank-- && rest & (rest - 1)) rest &= rest - 1;
        return (unsigned)__builtin_ctz(rest);
    }
    unsigned ballot(int predicate, int line = __builtin_LINE()) const {
        unsigned yes = __ballot_sync(mask, predicate, line), packed = 0, i = 0;
        for (unsigned rest = mask; rest; rest &= rest - 1, ++i) packed |= (yes >> __builtin_ctz(rest) & 1u) << i;
        return packed;
    }
    template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return shfl(value, rank_ + delta < lanes ? rank_ + delta : rank_, line);
    }
    template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return shfl(value, rank_ >= delta ? rank_ - delta : rank_, line);
    }
};
inline coalesced_group coalesced_threads(int line = __builtin_LINE()) {
    coalesced_group group;
    group.mask = __activemask(line);
    group.lanes = (unsigned)__builtin_popcount(group.mask);
    group.rank_ = (unsigned)__builtin_popcount(group.mask & ((1u << __cuplug::lane()) - 1));
    group.kind = 1;
    return group;
}

template <unsigned Size, class Parent> inline thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    thread_block_tile<Size, Parent> tile;
    tile.mask = tile.lane_mask();
    tile.lanes = Size;
    tile.rank_ = tile.thread_rank();
    tile.kind = 1;
    return tile;
}
inline thread_group tiled_partition(const thread_group&, unsigned size) {
    unsigned lane = __cuplug::lane(), base = lane & ~(size - 1);
    return {(unsigned)(((1ull << size) - 1) << base), size, lane & (size - 1), 1};
}
template <class Group> inline void sync(const Group& group, int line = __builtin_LINE()) { group.sync(line); }

template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

template <class Group, class T, class F> inline T reduce(const Group& group, T value, F combine, int line = __builtin_LINE()) {
    T total = group.shfl(value, 0, line);
    for (unsigned rank = 1; rank < group.size(); ++rank) total = combine(total, group.shfl(value, rank, line));
    return total;
}
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
