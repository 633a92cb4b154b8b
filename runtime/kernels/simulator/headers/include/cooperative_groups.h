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
    static constexpr bool has_several_warps = false;
    const Derived& group() const { return *(const Derived*)this; }
    template <class T> T shfl(T value, unsigned rank, int line = __builtin_LINE()) const {
        return __shfl_sync(group().lane_mask(), value, (int)group().lane_of(rank), 32, line);
    }
    int any(int predicate, int line = __builtin_LINE()) const { return __any_sync(group().lane_mask(), predicate, line); }
    int all(int predicate, int line = __builtin_LINE()) const {  // not of a group of which a thread has returned
        return __ballot_sync(group().lane_mask(), predicate, line) == group().lane_mask();
    }
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

namespace __details {
struct Parted {};  // what tiled_partition() makes tiles from: a program has no other way
}

// A tile knows by its type what it is a part of, and without it (`thread_block_tile<16>`) by what it was made from.
template <unsigned Size, class Parent = void> struct thread_block_tile : thread_block_tile<Size, void> {
    explicit thread_block_tile(__details::Parted made) : thread_block_tile<Size, void>(made) {
        this->meta_rank = meta_group_rank();
        this->meta_size = meta_group_size();
    }
    static unsigned meta_group_rank() { return Parent::thread_rank() / Size; }
    static unsigned meta_group_size() { return (Parent::size() + Size - 1) / Size; }
};

namespace __details {
// Tiles of several warps, whose threads meet in the engine. They have the functions that CUDA's have.
template <unsigned Size> struct large_tile {
    static constexpr bool has_several_warps = true;
    unsigned meta_rank, meta_size;
    explicit large_tile(Parted) {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return __cuplug::self()->thread & (Size - 1); }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    // The value of the thread with that rank. Of a vote: how many threads take part, and how many say yes.
    template <class T> static T meet(unsigned use, T value, unsigned rank, int line, unsigned* total = nullptr) {
        static_assert(sizeof(T) <= 8, "CUDA's functions of tiles of several warps take values of up to 8 bytes");
        __cuplug::Exchange e = {};
        __builtin_memcpy((void*)e.value, (const void*)&value, sizeof(T));
        e.operation = use;
        e.argument = rank;
        e.line = (unsigned)line;
        __cuplug::self()->api->meet_tile(__cuplug::self()->thread & ~(Size - 1), Size, &e);
        T result;
        __builtin_memcpy((void*)&result, (const void*)e.result, sizeof(T));
        if (total) *total = e.flag;
        return result;
    }
    void sync(int line = __builtin_LINE()) const { meet(__cuplug::TILE_SYNC, 0, 0, line); }
    int any(int predicate, int line = __builtin_LINE()) const {
        unsigned agree;
        meet<unsigned>(__cuplug::TILE_VOTE, predicate != 0, 0, line, &agree);
        return agree != 0;
    }
    int all(int predicate, int line = __builtin_LINE()) const {
        unsigned agree, there = meet<unsigned>(__cuplug::TILE_VOTE, predicate != 0, 0, line, &agree);
        return agree == there;
    }
    template <class T> T shfl(T value, unsigned rank, int line = __builtin_LINE()) const {
        return meet(__cuplug::TILE_SHUFFLE, value, rank, line);
    }
#define CUPLUG_OF_SMALL_TILES(name)                                                                                   \
    template <class... A> int name(A&&...) const {                                                                     \
        static_assert(sizeof...(A) > 9, "CUDA has no " #name "() for tiles of several warps: they have sync(), any(), "  \
                                        "all() and shfl() from one source, and reduce() and the scans");               \
        return 0;                                                                                                     \
    }
    CUPLUG_OF_SMALL_TILES(shfl_up) CUPLUG_OF_SMALL_TILES(shfl_down) CUPLUG_OF_SMALL_TILES(shfl_xor)
    CUPLUG_OF_SMALL_TILES(ballot) CUPLUG_OF_SMALL_TILES(match_any) CUPLUG_OF_SMALL_TILES(match_all)
#undef CUPLUG_OF_SMALL_TILES
};

// What may be parted into tiles of so many threads.
template <unsigned Size, class Parent> struct can_be_parted { static constexpr bool value = false; };
template <unsigned Size> struct can_be_parted<Size, thread_block> { static constexpr bool value = true; };
template <unsigned Size, unsigned Whole, class Parent> struct can_be_parted<Size, thread_block_tile<Whole, Parent>> {
    static constexpr bool value = Size < Whole;
};

// For reductions and scans: the value of the thread with that rank, which need not be the same in all threads.
template <class Group, class T> inline T value_of(const Group& group, unsigned use, T value, unsigned rank, int line) {
    if constexpr (Group::has_several_warps) return group.meet(use, value, rank, line);
    else return group.shfl(value, rank, line);
}
template <class A, class B> constexpr bool is_same = false;
template <class A> constexpr bool is_same<A, A> = true;
template <class A, class B> constexpr bool is_same<A&, B> = is_same<A, B>;
template <class A, class B> constexpr bool is_same<const A&, B> = is_same<A, B>;
}  // namespace __details
// Who passes a tile of several warps as one that does not say of what it is a part makes it anew: the tile meets, too.
#define CUPLUG_LARGE_TILE(Size)                                                             \
    template <> struct thread_block_tile<Size, void> : __details::large_tile<Size> {          \
        using __details::large_tile<Size>::large_tile;                                        \
        template <class Parent>                                                               \
        thread_block_tile(const thread_block_tile<Size, Parent>& tile, int line = __builtin_LINE()) \
            : __details::large_tile<Size>(tile) {                                             \
            this->sync(line);                                                                 \
        }                                                                                     \
    };
CUPLUG_LARGE_TILE(64)
CUPLUG_LARGE_TILE(128)
CUPLUG_LARGE_TILE(256)
CUPLUG_LARGE_TILE(512)
CUPLUG_LARGE_TILE(1024)
#undef CUPLUG_LARGE_TILE

template <unsigned Size>
struct thread_block_tile<Size, void> : thread_group, __details::warp_functions<thread_block_tile<Size, void>> {
    static_assert(Size >= 1 && Size <= 32 && (Size & (Size - 1)) == 0, "tiles have 1, 2, 4, ..., 512 or 1024 threads");
    using functions = __details::warp_functions<thread_block_tile<Size, void>>;
    using functions::sync;
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return __cuplug::lane() & (Size - 1); }
    unsigned meta_rank, meta_size;
    explicit thread_block_tile(__details::Parted) : thread_group{lane_mask(), Size, thread_rank(), 1} {}
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
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

// Where tiles of several warps are made, the whole group meets, as on GPUs with compute capability 8.0 and later.
template <unsigned Size, class Parent>
inline thread_block_tile<Size, Parent> tiled_partition(const Parent& parent, int line = __builtin_LINE()) {
    static_assert(__details::can_be_parted<Size, Parent>::value,
                  "tiled_partition<Size>() takes a thread block, or a tile of more than Size threads");
    if constexpr (Size > 32) parent.sync(line);
    return thread_block_tile<Size, Parent>(__details::Parted());
}
namespace __details {
inline void check_size(unsigned size) {
    if (size - 1 < 32 && !(size & (size - 1))) return;
    __cuplug::self()->api->stop(__cuplug::FAULT_LAUNCH_FAILED, "tiled_partition(group, size) takes a size of 1, 2, 4, 8, 16 or "
                                "32; tiled_partition<size>(group) makes larger tiles");
}
}  // namespace __details
inline coalesced_group tiled_partition(const coalesced_group& group, unsigned size) {
    __details::check_size(size);
    unsigned first = group.rank_ / size * size, mask = 0;
    for (unsigned rank = first; rank < first + size && rank < group.lanes; ++rank) mask |= 1u << group.lane_of(rank);
    return __details::lanes_of(mask, group.rank_ / size, (group.lanes + size - 1) / size);
}
inline thread_group tiled_partition(const thread_group&, unsigned size) {
    __details::check_size(size);
    unsigned lane = __cuplug::lane(), base = lane & ~(size - 1);
    unsigned rest = __cuplug::self()->thread_count - (__cuplug::self()->thread & ~(size - 1)), lanes = rest < size ? rest : size;
    return {(unsigned)(((1ull << lanes) - 1) << base), lanes, lane & (size - 1), 1};
}
template <class Group, class Label>
inline coalesced_group labeled_partition(const Group& group, Label label, int line = __builtin_LINE()) {
    static_assert(!Group::has_several_warps, "labeled_partition() takes tiles of up to 32 threads");
    unsigned mask = __match_any_sync(group.lane_mask(), label, line), first = mask & -mask;
    unsigned firsts = __ballot_sync(group.lane_mask(), first == 1u << __cuplug::lane(), line);
    return __details::lanes_of(mask, (unsigned)__builtin_popcount(firsts & (first - 1)), (unsigned)__builtin_popcount(firsts));
}
template <class Group>
inline coalesced_group binary_partition(const Group& group, bool predicate, int line = __builtin_LINE()) {
    static_assert(!Group::has_several_warps, "binary_partition() takes tiles of up to 32 threads");
    unsigned yes = __ballot_sync(group.lane_mask(), predicate, line);
    if (!yes || yes == group.lane_mask()) return __details::lanes_of(group.lane_mask());
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
