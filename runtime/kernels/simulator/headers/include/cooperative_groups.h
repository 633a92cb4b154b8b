// Cooperative groups: grids of cooperative launches, thread blocks, tiles, coalesced groups. Clusters are refused by name
// (translate.py).
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
    struct arrival_token {};
    static dim3 group_index() { return dim3(__cuplug_blockIdx); }
    static dim3 thread_index() { return dim3(__cuplug_threadIdx); }
    static dim3 group_dim() { return __cuplug_blockDim; }
    static dim3 dim_threads() { return __cuplug_blockDim; }
    static unsigned size() { return __cuplug::self()->thread_count; }
    static unsigned num_threads() { return __cuplug::self()->thread_count; }
    static unsigned thread_rank() { return __cuplug::self()->thread; }
    static void sync(int line = __builtin_LINE()) { __syncthreads(line); }
    static arrival_token barrier_arrive() { return {}; }
    static void barrier_wait(arrival_token&&, int line = __builtin_LINE()) { __syncthreads(line); }
};
// Room for groups across warps, which need none here.
template <unsigned threads = 1024> struct block_tile_memory {};
inline thread_block this_thread_block();
template <unsigned threads> inline thread_block this_thread_block(block_tile_memory<threads>&) {
    return this_thread_block();
}
inline thread_block this_thread_block() {
    thread_block block;
    block.mask = 0;
    block.lanes = __cuplug::self()->thread_count;
    block.rank_ = __cuplug::self()->thread;
    block.kind = 0;
    return block;
}

struct grid_group {
    struct arrival_token {};
    static bool is_valid() { return __cuplug::self()->cooperative != 0; }
    static dim3 group_dim() { return __cuplug_gridDim; }
    static dim3 dim_blocks() { return __cuplug_gridDim; }
    static dim3 block_index() { return dim3(__cuplug_blockIdx); }
    static unsigned long long num_blocks() {
        dim3 g = __cuplug_gridDim;
        return (unsigned long long)g.x * g.y * g.z;
    }
    static unsigned long long block_rank() {
        dim3 g = __cuplug_gridDim;
        uint3 b = __cuplug_blockIdx;
        return ((unsigned long long)b.z * g.y + b.y) * g.x + b.x;
    }
    static unsigned long long size() { return num_blocks() * __cuplug::self()->thread_count; }
    static unsigned long long num_threads() { return size(); }
    static unsigned long long thread_rank() {
        return block_rank() * __cuplug::self()->thread_count + __cuplug::self()->thread;
    }
    static void sync(int line = __builtin_LINE()) { __cuplug::self()->api->meet_grid(line); }
    static arrival_token barrier_arrive() { return {}; }
    static void barrier_wait(arrival_token&&, int line = __builtin_LINE()) { sync(line); }
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
    unsigned ballot(int predicate, int line = __builtin_LINE()) const {
        return group().packed(__ballot_sync(group().lane_mask(), predicate, line));
    }
    template <class T> unsigned match_any(T value, int line = __builtin_LINE()) const {
        return group().packed(__match_any_sync(group().lane_mask(), value, line));
    }
    template <class T> unsigned match_all(T value, int& predicate, int line = __builtin_LINE()) const {
        return group().packed(__match_all_sync(group().lane_mask(), value, &predicate, line));
    }
    void sync(int line = __builtin_LINE()) const { __syncwarp(group().lane_mask(), line); }
};
}  // namespace __details

template <unsigned Size, class Parent = void> struct thread_block_tile : thread_block_tile<Size, void> {};

namespace __details {
// Tiles of several warps, whose threads meet in the engine.
template <unsigned Size> struct large_tile {
    static_assert(Size <= 1024 && (Size & (Size - 1)) == 0, "tiles have 1, 2, 4, ..., 512 or 1024 threads");
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return __cuplug::self()->thread & (Size - 1); }
    static unsigned meta_group_rank() { return __cuplug::self()->thread / Size; }
    static unsigned meta_group_size() { return (__cuplug::self()->thread_count + Size - 1) / Size; }
    template <class T> static T meet(T value, unsigned rank, int line, unsigned* total = nullptr) {
        static_assert(sizeof(T) <= 16, "functions of tiles take values of up to 16 bytes");
        __cuplug::Exchange e = {};
        __builtin_memcpy((void*)e.value, (const void*)&value, sizeof(T));
        e.argument = rank;
        e.line = (unsigned)line;
        __cuplug::self()->api->meet_tile(meta_group_rank() * Size, Size, &e);
        T result;
        __builtin_memcpy((void*)&result, (const void*)e.result, sizeof(T));
        if (total) *total = e.flag;
        return result;
    }
    static unsigned count(bool predicate, int line) {
        unsigned total;
        meet<unsigned>(predicate, 0, line, &total);
        return total;
    }
    void sync(int line = __builtin_LINE()) const { meet(0, 0, line); }
    int any(int predicate, int line = __builtin_LINE()) const { return count(predicate != 0, line) != 0; }
    int all(int predicate, int line = __builtin_LINE()) const { return count(predicate != 0, line) == Size; }
    template <class T> T shfl(T value, unsigned rank, int line = __builtin_LINE()) const { return meet(value, rank, line); }
    template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return meet(value, thread_rank() >= delta ? thread_rank() - delta : thread_rank(), line);
    }
    template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return meet(value, thread_rank() + delta < Size ? thread_rank() + delta : thread_rank(), line);
    }
    template <class T> T shfl_xor(T value, unsigned lanes, int line = __builtin_LINE()) const {
        return meet(value, thread_rank() ^ lanes, line);
    }
};
}  // namespace __details
#define CUPLUG_LARGE_TILE(Size) template <> struct thread_block_tile<Size, void> : __details::large_tile<Size> {};
CUPLUG_LARGE_TILE(64)
CUPLUG_LARGE_TILE(128)
CUPLUG_LARGE_TILE(256)
CUPLUG_LARGE_TILE(512)
CUPLUG_LARGE_TILE(1024)
#undef CUPLUG_LARGE_TILE

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
    static unsigned packed(unsigned lanes) { return lanes >> base(); }
    template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return __shfl_up_sync(lane_mask(), value, delta, Size, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return __shfl_down_sync(lane_mask(), value, delta, Size, line);
    }
    template <class T> T shfl_xor(T value, unsigned lanes, int line = __builtin_LINE()) const {
        return __shfl_xor_sync(lane_mask(), value, (int)lanes, Size, line);
    }
};

struct coalesced_group : thread_group, __details::warp_functions<coalesced_group> {
    unsigned meta_rank = 0, meta_size = 1;
    using __details::warp_functions<coalesced_group>::sync;
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    unsigned lane_mask() const { return mask; }
    unsigned lane_of(unsigned rank) const {
        unsigned rest = mask;
        while (rank-- && rest & (rest - 1)) rest &= rest - 1;
        return (unsigned)__builtin_ctz(rest);
    }
    unsigned packed(unsigned lanes) const {
        unsigned result = 0, i = 0;
        for (unsigned rest = mask; rest; rest &= rest - 1, ++i) result |= (lanes >> __builtin_ctz(rest) & 1u) << i;
        return result;
    }
    template <class T> T shfl_down(T value, unsigned delta, int line = __builtin_LINE()) const {
        return shfl(value, rank_ + delta < lanes ? rank_ + delta : rank_, line);
    }
    template <class T> T shfl_up(T value, unsigned delta, int line = __builtin_LINE()) const {
        return shfl(value, rank_ >= delta ? rank_ - delta : rank_, line);
    }
};

namespace __details {
inline coalesced_group lanes_of(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1) {
    coalesced_group group;
    group.mask = mask;
    group.lanes = (unsigned)__builtin_popcount(mask);
    group.rank_ = (unsigned)__builtin_popcount(mask & ((1u << __cuplug::lane()) - 1));
    group.kind = 1;
    group.meta_rank = meta_rank;
    group.meta_size = meta_size;
    return group;
}
}  // namespace __details

inline coalesced_group coalesced_threads(int line = __builtin_LINE()) { return __details::lanes_of(__activemask(line)); }

template <unsigned Size, class Parent> inline thread_block_tile<Size, Parent> tiled_partition(const Parent&) {
    thread_block_tile<Size, Parent> tile;
    if constexpr (Size <= 32) {
        tile.mask = tile.lane_mask();
        tile.lanes = Size;
        tile.rank_ = tile.thread_rank();
        tile.kind = 1;
    }
    return tile;
}
inline coalesced_group tiled_partition(const coalesced_group& group, unsigned size) {
    unsigned first = group.rank_ / size * size, mask = 0;
    for (unsigned rank = first; rank < first + size && rank < group.lanes; ++rank) mask |= 1u << group.lane_of(rank);
    return __details::lanes_of(mask, group.rank_ / size, (group.lanes + size - 1) / size);
}
inline thread_group tiled_partition(const thread_group&, unsigned size) {
    unsigned lane = __cuplug::lane(), base = lane & ~(size - 1);
    return {(unsigned)(((1ull << size) - 1) << base), size, lane & (size - 1), 1};
}
template <class Group, class Label>
inline coalesced_group labeled_partition(const Group& group, Label label, int line = __builtin_LINE()) {
    unsigned mask = __match_any_sync(group.lane_mask(), label, line), first = mask & -mask;
    unsigned firsts = __ballot_sync(group.lane_mask(), first == 1u << __cuplug::lane(), line);
    return __details::lanes_of(mask, (unsigned)__builtin_popcount(firsts & (first - 1)), (unsigned)__builtin_popcount(firsts));
}
template <class Group>
inline coalesced_group binary_partition(const Group& group, bool predicate, int line = __builtin_LINE()) {
    unsigned yes = __ballot_sync(group.lane_mask(), predicate, line);
    return __details::lanes_of(predicate ? yes : group.lane_mask() & ~yes, predicate, 2);
}

template <class Group> inline void sync(const Group& group, int line = __builtin_LINE()) { group.sync(line); }
inline void sync(const grid_group&, int line = __builtin_LINE()) { grid_group::sync(line); }

template <class Group, class F, class... A> inline void invoke_one(const Group& group, F&& function, A&&... arguments) {
    if (group.thread_rank() == 0) function(static_cast<A&&>(arguments)...);
}
template <class Group, class F, class... A> inline auto invoke_one_broadcast(const Group& group, F&& function, A&&... arguments) {
    decltype(function(static_cast<A&&>(arguments)...)) result{};
    if (group.thread_rank() == 0) result = function(static_cast<A&&>(arguments)...);
    return group.shfl(result, 0);
}

}  // namespace cooperative_groups
#endif
