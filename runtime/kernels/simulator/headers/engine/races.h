// What threads do to one another's memory, for kernels compiled with check="races".
//
// Every access is remembered with its thread and time: of each four bytes the last write and up to two reads. Time counts
// up with whatever orders threads. An access is ordered behind a remembered one if it is of the same thread, behind a
// barrier that both came to, behind a warp function that both took part in, or behind a chain of releases and acquires: a
// fence, then an atomic or volatile write, then an atomic or volatile read of the same place. What conflicts and is not
// ordered is a race, unless it is a write that changes nothing. Blocks run one after the other, so that all is exact and
// the same in every run.
#pragma once

#include <initializer_list>

#include "../strips.h"
#include "faults.h"

namespace races {

constexpr char FOR_RACES[] = "what check=\"races\" keeps of accesses: check fewer blocks at once, or less memory";

constexpr cuplug_u32 BUCKETS = 1 << 10;
static Stretch* buckets[BUCKETS];
static Told told;
static cuplug_u32 stretch_count = 0;
constexpr cuplug_u32 KEPT_STRETCHES = 10;  // from one launch to the next: 220 MB, if all of their memory is touched

// The instructions that touch memory, as offsets into the module, by numbers that fit into an access. 0: not known.
struct Codes {
    cuplug_u32 of[1 << 13], count = 1;

    __attribute__((always_inline)) cuplug_u32 number(cuplug_u32 code) {
        const Coded& usual = told.codes[Coded::place(code)];
        return __builtin_expect(usual.code == code, 1) && usual.number ? usual.number : find(code);
    }
    cuplug_u32 find(cuplug_u32 code) {
        for (cuplug_u32 i = Coded::place(code);; ++i) {
            Coded& entry = told.codes[i & ((1 << 14) - 1)];
            if (entry.code == code && entry.number) return entry.number;
            if (entry.number) continue;
            if (count == 1 << 13) return 0;
            entry = {code, count};
            of[count] = code;
            return count++;
        }
    }
    void clear() {
        count = 1;
        memset(told.codes, 0, sizeof told.codes);
    }
};
static Codes codes;

// When each block of the launch began, or went on. Times only grow.
struct Turns {
    struct Turn { cuplug_u32 time, block; } *items;
    cuplug_u32 count, capacity;

    void add(cuplug_u32 time, cuplug_u32 block) {
        if (count == capacity) {
            items = enlarged(items, capacity * 2 + 64, FOR_RACES);
            capacity = capacity * 2 + 64;
        }
        items[count++] = {time, block};
    }
    cuplug_u32 block_at(cuplug_u32 time) const {
        cuplug_u32 low = 0, high = count;
        while (high - low > 1) {
            const cuplug_u32 middle = (low + high) / 2;
            if (items[middle].time <= time) low = middle;
            else high = middle;
        }
        return count ? items[low].block : 0;
    }
};
static Turns turns;

static cuplug_u32 block_of(const Access& access) { return turns.block_at(access.time); }
static cuplug_u32 code_of(const Access& access) { return codes.of[access.place]; }

// --- chains of releases and acquires

struct Release {  // what those who acquire the place know of a block
    cuplug_u32 block, thread, thread_time, warp_time, block_time, added;
};

struct Place;
struct View {  // what was released at a place up to a time
    Place* place;
    cuplug_u32 until;
};

struct Views {
    View* items;
    cuplug_u32 count, capacity;

    void add(Place* place, cuplug_u32 until) {
        for (cuplug_u32 i = 0; i < count; ++i)
            if (items[i].place == place) {
                if (items[i].until < until) items[i].until = until;
                return;
            }
        if (count == capacity) {
            items = enlarged(items, capacity * 2 + 4, FOR_RACES);
            capacity = capacity * 2 + 4;
        }
        items[count++] = {place, until};
    }
    void add_all(const Views& other) {
        for (cuplug_u32 i = 0; i < other.count; ++i) add(other.items[i].place, other.items[i].until);
    }
};

// A place in memory at which something was released. Blocks run in order, so releases are in order of blocks.
struct Place {
    cuplug_u64 address;
    Place* next;
    Release* releases;
    cuplug_u32 count, capacity, visited, visited_until;
    Views links;
};
static Place* places[1024];
static cuplug_u32 place_count = 0, visit = 0;

// --- the time, and what each thread of the running block knows

static cuplug_u32 now = 1, launch_time = 1, grid_time = 1, block_time = 1, block = 0;
static cuplug_u32 warp_time[MAX_WARPS], fence_time[MAX_THREADS];
static cuplug_u32 known[MAX_THREADS][32];  // up to when a thread knows what each lane of its warp did
static Views views[MAX_THREADS], of_block;
static bool any_views = false;
static bool in_lockstep = false;           // whether the source is of a time when warps went in step

// A write in conflict, which counts if it changes something: known at the next access.
static struct {
    bool waits;
    cuplug_u64 address;
    cuplug_u32 nbytes, code, thread;
    unsigned char before[16];
    Access other, mine;
} pending;

// A read of what nobody had written. If somebody writes it before the next barrier, it is a race, which tells more.
static struct {
    bool waits;
    cuplug_u64 address;
    cuplug_u32 code, thread;
    const char* what;
} unwritten;

static bool by_simple_form = false;  // without strips and shortcuts, for tests to compare with

// Lets the code of modules know the time, unless the engine must hear of the next access.
static void show_time() { told.time = pending.waits || by_simple_form ? ~0u : now; }

// Lets it know that some threads are ordered from now on, by what they did together.
static void show_meeting() { told.last_meeting = any_views || in_lockstep ? ~0u : now; }
static cuplug_u32 tick() {
    ++now;
    show_time();
    return now;
}

static cuplug_u64 constants[2 * 256];
static cuplug_u32 constant_count = 0;

static struct {  // the arrays of functions that are being run
    names::Variable items[8192];
    cuplug_u32 count;

    void add(const void* address, const Named* about) {
        if (count < 8192) items[count++] = {about, (cuplug_u64)address};
    }
    void drop(const void* address) {
        for (cuplug_u32 i = count; i-- > 0;)
            if (items[i].start == (cuplug_u64)address) {
                items[i] = items[--count];
                return;
            }
    }
    names::Variable find(cuplug_u64 address, cuplug_u64 beyond = 0) const {
        names::Nearest nearest(address, beyond);
        for (cuplug_u32 i = 0; i < count; ++i) nearest.offer(items[i]);
        return nearest.found;
    }
} local_names;

static names::Variable find_variable(State* state, cuplug_u64 address, cuplug_u64 beyond) {
    const names::Variable it = names::find_shared(state, address, beyond);
    return it.about ? it : local_names.find(address, beyond);
}

// "tile[3]", or the address for Python to look up.
static void describe_place(State* state, char* text, size_t room, cuplug_u64 address) {
    const names::Variable it = find_variable(state, address, 0);
    if (it.about) return names::describe_element(it, address, text, room);
    cuplug_u64 offset = address - (cuplug_u64)state->base();
    cuplug_u64 dynamic = address - (cuplug_u64)state->shared;
    if (offset < REGION && dynamic < state->shared_nbytes)
        snprintf(text, room, "dynamic shared memory + %llu bytes", dynamic);
    else if (offset < REGION)
        snprintf(text, room, "local memory");
    else
        snprintf(text, room, "{%#llx}", address);
}

static void describe_thread(State* state, char* text, size_t room, cuplug_u32 block_index, cuplug_u32 thread) {
    Dim size = state->blockDim, grid = state->gridDim;
    snprintf(text, room, "block (%u, %u, %u), thread (%u, %u, %u)", block_index % grid.x, block_index / grid.x % grid.y,
             block_index / grid.x / grid.y, thread % size.x, thread / size.x % size.y, thread / size.x / size.y);
}

// Ends the block by the race that is held, if one is.
static void tell_held_race(State* state) {
    if (!held_race.waits) return;
    record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "%s", "");
    escape(state);
}

// Lets the fault be that of a thread, whichever runs.
static void blame(State* state, cuplug_u32 thread) {
    const Dim size = state->blockDim;
    state->thread = thread;
    state->threadIdx = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
}

static const char* verb(unsigned char kind) {
    if (kind & TOUCH_ATOMIC) return kind & TOUCH_VOLATILE ? (kind & TOUCH_WRITE ? "a volatile write" : "a volatile read") : "an atomic operation";
    return kind & TOUCH_WRITE ? "a write" : "a read";
}

// Tells a race. Within a block some threads of which wait at a barrier while others go on, what is wrong may be that these
// never come to it: then the race is held until the barrier opens, or another fault, or a barrier that is divergent, ends
// the block.
static void report_race(State* state, cuplug_u64 address, const Access& mine, const Access& other) {
    char place[160], here[96], there[96];
    pending.waits = false;
    if (held_race.waits) return;
    const bool is_here = mine.time >= block_time && other.time >= block_time;
    const bool is_shared = address - (cuplug_u64)state->base() < REGION;
    describe_place(state, place, sizeof place, address);
    describe_thread(state, here, sizeof here, block_of(mine), mine.thread);
    describe_thread(state, there, sizeof there, block_of(other), other.thread);
    const Dim size = state->blockDim;
    held_race.thread = {mine.thread % size.x, mine.thread / size.x % size.y, mine.thread / size.x / size.y};
    held_race.places[0] = code_of(mine);
    held_race.places[1] = code_of(other);
    snprintf(held_race.text, sizeof held_race.text, "race on %s: %s by %s in [0], and %s by %s in [1], with %s", place, verb(mine.kind),
             here, verb(other.kind), there,
             !is_here                              ? "nothing between that orders them"
             : mine.kind & other.kind & TOUCH_WRITE ? "no __syncthreads() between them: two threads write the same place"
             : is_shared                           ? "no __syncthreads() between them: a barrier is missing"
                                                   : "no __syncthreads() between them: a barrier or an atomic operation is missing");
    held_race.waits = true;
    if (is_here && state->kernel->fibres && state->arrived && state->status[other.thread] == AT_BARRIER) return;
    tell_held_race(state);
}

__attribute__((noreturn)) static void report(State* state, cuplug_u64 address, cuplug_u32 code, const char* what) {
    char place[160];
    pending.waits = unwritten.waits = false;
    describe_place(state, place, sizeof place, address);
    state->launch->fault.places[0] = code;
    record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "%s %s in [0]", what, place);
    escape(state);
}

// An access beside a variable of the block's or the thread's, if one is near.
static void report_outside(State* state, cuplug_u64 address, cuplug_u32 code, const char* what) {
    const names::Variable it = find_variable(state, address, names::BESIDE);
    if (!it.about) return;
    char place[300];
    names::describe_outside(it, address, place, sizeof place);
    pending.waits = unwritten.waits = false;
    state->launch->fault.places[0] = code;
    record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "%s %s in [0]", what, place);
    escape(state);
}

// --- order

static Place* find_place(cuplug_u64 address, bool make) {
    Place*& head = places[(address >> 2) * 0x9e3779b1u >> 7 & 1023];
    for (Place* place = head; place; place = place->next)
        if (place->address == address) return place;
    if (!make) return nullptr;
    Place* place = enlarged((Place*)nullptr, 1, FOR_RACES);
    memset((void*)place, 0, sizeof *place);
    place->address = address;
    place->next = head;
    ++place_count;
    return head = place;
}

// Whether an access was released at a place before a time, or at one that was acquired before that.
static bool released(Place* place, cuplug_u32 until, const Access& access) {
    if (place->visited == visit && place->visited_until >= until) return false;
    place->visited = visit;
    place->visited_until = until;
    cuplug_u32 low = 0, high = place->count;
    const cuplug_u32 its = block_of(access);
    while (low < high) {
        cuplug_u32 middle = (low + high) / 2;
        if (place->releases[middle].block < its) low = middle + 1;
        else high = middle;
    }
    for (; low < place->count && place->releases[low].block == its; ++low) {
        const Release& it = place->releases[low];
        if (it.added > until) continue;
        if (access.time < it.block_time) return true;
        if (access.time < it.thread_time && access.thread == it.thread) return true;
        if (access.time < it.warp_time && access.thread / 32 == it.thread / 32) return true;
    }
    for (cuplug_u32 i = 0; i < place->links.count; ++i) {
        const View& link = place->links.items[i];
        if (released(link.place, link.until < until ? link.until : until, access)) return true;
    }
    return false;
}

static bool in_views(const Views& seen, const Access& access) {
    for (cuplug_u32 i = 0; i < seen.count; ++i)
        if (released(seen.items[i].place, seen.items[i].until, access)) return true;
    return false;
}

static bool ordered(cuplug_u32 thread, const Access& access) {
    if (access.time < grid_time) return true;
    if (access.time >= block_time) {  // of the same block
        if (in_lockstep && access.thread / 32 == thread / 32) return true;
        if (access.thread == thread || access.time < told.barrier_time) return true;
        cuplug_u32 warp = thread / 32;
        if (access.thread / 32 == warp &&
            (access.time < warp_time[warp] || access.time < known[thread][access.thread % 32]))
            return true;
    }
    if (!any_views) return false;
    ++visit;
    return in_views(views[thread], access) || in_views(of_block, access);
}

static void settle(State* state) {
    if (!pending.waits) return;
    pending.waits = false;
    show_time();
    if (memcmp((void*)pending.address, pending.before, pending.nbytes))
        report_race(state, pending.address, pending.mine, pending.other);
}

static void settle_unwritten(State* state) {
    if (!unwritten.waits) return;
    blame(state, unwritten.thread);
    report(state, unwritten.address, unwritten.code, unwritten.what);
}

static void note_unwritten(cuplug_u64 address, cuplug_u32 code, cuplug_u32 thread, const char* what) {
    if (!unwritten.waits) unwritten = {true, address, code, thread, what};
}

static void at_barrier(State* state) {
    settle(state);
    tell_held_race(state);
    settle_unwritten(state);
    told.barrier_time = tick();
    show_meeting();
    if (!any_views) return;
    for (cuplug_u32 thread = 0; thread < state->thread_count; ++thread) {
        of_block.add_all(views[thread]);
        views[thread].count = 0;
    }
}

// The same, where the kernel's own text is loops from barrier to barrier.
static void pass_barrier() { at_barrier((State*)self()); }

// Behind a warp function, its lanes know what the others did and knew.
static void at_exchange(State* state, cuplug_u32 warp, cuplug_u32 group) {
    settle(state);
    tick();
    show_meeting();
    if (group == state->live[warp]) {
        warp_time[warp] = now;
    } else {
        cuplug_u32 joined[32];
        memset(joined, 0, sizeof joined);
        for (cuplug_u32 rest = group; rest; rest &= rest - 1) {
            const cuplug_u32* its = known[warp * 32 + (cuplug_u32)__builtin_ctz(rest)];
            for (int lane = 0; lane < 32; ++lane) joined[lane] = its[lane] > joined[lane] ? its[lane] : joined[lane];
        }
        for (cuplug_u32 rest = group; rest; rest &= rest - 1) joined[__builtin_ctz(rest)] = now;
        for (cuplug_u32 rest = group; rest; rest &= rest - 1)
            memcpy(known[warp * 32 + (cuplug_u32)__builtin_ctz(rest)], joined, sizeof joined);
    }
    if (!any_views) return;
    Views& first = views[warp * 32 + (cuplug_u32)__builtin_ctz(group)];
    for (cuplug_u32 rest = group; rest; rest &= rest - 1) first.add_all(views[warp * 32 + (cuplug_u32)__builtin_ctz(rest)]);
    for (cuplug_u32 rest = group; rest; rest &= rest - 1) {
        Views& its = views[warp * 32 + (cuplug_u32)__builtin_ctz(rest)];
        if (&its != &first) its.add_all(first);
    }
}

static void release_at(cuplug_u32 thread, cuplug_u64 address, bool by_itself) {
    if (!by_itself && fence_time[thread] < block_time) return;  // no fence before it
    Place* place = find_place(address, true);
    if (place->count == place->capacity) {
        place->releases = enlarged(place->releases, place->capacity * 2 + 4, FOR_RACES);
        place->capacity = place->capacity * 2 + 4;
    }
    tick();
    const Release fresh = {block, thread, by_itself ? now : fence_time[thread], warp_time[thread / 32], told.barrier_time, now};
    Release* last = place->count ? &place->releases[place->count - 1] : nullptr;
    if (last && last->block == block && last->thread == thread) *last = {fresh.block, fresh.thread, fresh.thread_time,
        fresh.warp_time, fresh.block_time, last->added};
    else place->releases[place->count++] = fresh;
    for (const Views* its : {&views[thread], &of_block})
        for (cuplug_u32 i = 0; i < its->count; ++i)
            if (its->items[i].place != place) place->links.add(its->items[i].place, its->items[i].until);
}

static void acquire_at(cuplug_u32 thread, cuplug_u64 address) {
    Place* place = place_count ? find_place(address, false) : nullptr;
    if (!place) return;
    views[thread].add(place, now);
    any_views = true;
    show_meeting();
}

static void fence() {
    State* state = (State*)self();
    settle(state);
    fence_time[state->thread] = tick();
}

// --- accesses

static Stretch* find_stretch(cuplug_u64 number) {
    Stretch*& head = buckets[number * 0x9e3779b1u >> 8 & (BUCKETS - 1)];
    for (Stretch* stretch = head; stretch; stretch = stretch->next)
        if (stretch->number == number) return stretch;
    constexpr cuplug_u64 room = sizeof(Stretch) + Stretch::ALIGNMENT;
    char* space = (char*)mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (space == MAP_FAILED) stop_for_memory(FOR_RACES);
    char* begin = (char*)(((cuplug_u64)space + Stretch::ALIGNMENT - 1) & ~(Stretch::ALIGNMENT - 1));
    if (begin > space) munmap(space, (cuplug_u64)(begin - space));
    const cuplug_u64 nbytes = (sizeof(Stretch) + 4095) & ~4095ull;
    if (begin + nbytes < space + room) munmap(begin + nbytes, (cuplug_u64)(space + room - begin) - nbytes);
    Stretch* stretch = (Stretch*)begin;
    madvise(stretch->strips, sizeof stretch->strips, MADV_HUGEPAGE);
    stretch->number = number;
    stretch->next = head;
    ++stretch_count;
    return head = stretch;
}

// All bits: no stretch has that number.
static void forget_recent() { memset(told.recent, 0xff, sizeof told.recent); }

static Strip* strip_at(cuplug_u64 address) {
    const cuplug_u64 number = address / Stretch::NBYTES;
    auto& recent = told.recent[Told::place(number)];
    if (recent.number != number) recent = {number, find_stretch(number)->strips};
    return &recent.strips[address % Stretch::NBYTES / STRIP];
}

// Lets the cells of a strip say what was done to them, from now on.
__attribute__((noinline)) static void unfold(Strip& strip) {
    const bool is_known = strip.time > launch_time;
    Cell* cells = Stretch::cells_of(&strip);
    const Details& details = *Stretch::details_of(&strip);
    for (cuplug_u32 i = 0; i < 8 && is_known; ++i) {
        const auto access = [&](cuplug_u32 kind, cuplug_u32 thread, cuplug_u32 code) {
            return access_of(strip.time, thread, 15, kind, codes.number(code - told.code_begin));
        };
        const auto code = [&](Done what) { return strip.mixed >> what & 1 ? details.codes[what][i] : strip.codes[what]; };
        cells[i] = Cell();
        if (strip.done[READ] >> i & 1) cells[i].reads[0] = access(TOUCH_READ, strip.threads[i], code(READ));
        if (strip.others >> i & 1) cells[i].reads[1] = access(TOUCH_READ, details.other_threads[i], details.other_codes[i]);
        if (strip.done[WRITTEN] >> i & 1) cells[i].write = access(TOUCH_WRITE, strip.threads[i], code(WRITTEN));
    }
    strip.time = launch_time;
}

// The cell of global memory at an address, which says what was done to it.
static Cell* cell_at(cuplug_u64 address) {
    Strip* strip = strip_at(address);
    if (strip->time != launch_time) unfold(*strip);
    return &Stretch::cells_of(strip)[address % STRIP / CELL];
}

static bool is_poison(cuplug_u64 address, cuplug_u32 nbytes) {
    for (cuplug_u32 i = 0; i < nbytes; ++i)
        if (((const unsigned char*)address)[i] != POISON) return false;
    return true;
}

// The bytes of the cell at `first` that an access from `address` to `end` touches.
static unsigned char bytes_of(cuplug_u64 first, cuplug_u64 address, cuplug_u64 end) {
    unsigned char bytes = 15;
    if (address > first) bytes = (unsigned char)(bytes & 15u << (address - first));
    if (end < first + CELL) bytes = (unsigned char)(bytes & 15u >> (first + CELL - end));
    return bytes;
}

static bool checked(cuplug_u64 address, cuplug_u64 end) {
    for (cuplug_u64 at = address; at < end; at = (at | 7) + 1) {
        const signed char allowed = *(const volatile signed char*)shadow::of(at);
        const cuplug_u64 last = end - 1 < (at | 7) ? end - 1 : at | 7;
        if (allowed && (signed char)(last & 7) >= allowed) return false;
    }
    return true;
}

__attribute__((noinline)) static void conflict(State* state, cuplug_u64 address, cuplug_u32 nbytes, const Access& mine,
                                               const Access& other) {
    // An atomic operation is over when the next access is seen, as a write is: what changes nothing is no race.
    if (!(mine.kind & TOUCH_WRITE)) return report_race(state, address, mine, other);
    if (pending.waits || held_race.waits) return;
    pending.waits = true;
    pending.address = address;
    pending.nbytes = nbytes < 16 ? nbytes : 16;
    memcpy(pending.before, (void*)address, pending.nbytes);
    pending.mine = mine;
    pending.other = other;
    show_time();
}

static void remember_read(Cell& cell, const Access& mine, cuplug_u32 since) {
    Access& first = cell.reads[0];
    if (first.time < since ||
        (first.time >= block_time && (first.thread == mine.thread || ordered(mine.thread, first))))
        first = mine;
    else cell.reads[1] = mine;
}

static void remember(State* state, Cell& cell, const Access& mine, cuplug_u32 since, cuplug_u64 address, cuplug_u32 nbytes) {
    const Access& write = cell.write;
    if (write.time >= since && (write.bytes & mine.bytes) && !(write.kind & mine.kind & TOUCH_ATOMIC) &&
        !ordered(mine.thread, write))
        conflict(state, address, nbytes, mine, write);
    if (mine.kind & TOUCH_WRITE) {
        for (const Access& read : cell.reads)
            if (read.time >= since && (read.bytes & mine.bytes) && !(read.kind & mine.kind & TOUCH_ATOMIC) &&
                !ordered(mine.thread, read))
                conflict(state, address, nbytes, mine, read);
        // What the thread wrote before the barrier is not written now.
        const bool again = write.time >= since && write.time >= told.barrier_time && write.thread == mine.thread;
        const unsigned before = again ? write.bytes : 0;
        cell.write = mine;
        cell.write.bytes |= before & 15;
        return;
    }
    remember_read(cell, mine, since);
}

// Whether an address is the module's own, of a constant perhaps.
__attribute__((always_inline)) static inline bool in_module(State* state, cuplug_u64 address) {
    return address - state->launch->code_begin < state->launch->code_end - state->launch->code_begin;
}

// Whether an access can be in no conflict with one of the running thread, as far as is told quickly.
__attribute__((always_inline)) static inline bool is_past(const Access& access, cuplug_u32 thread, cuplug_u32 since) {
    return access.time < since ||
           (access.time >= block_time && (access.thread == thread || access.time < told.barrier_time));
}

// A plain access of whole cells of one page, all of which may be touched, that is in conflict with nobody: most are.
__attribute__((always_inline)) static inline bool is_plain(State* state, cuplug_u64 address, cuplug_u32 nbytes, cuplug_u32 kind,
                                                           cuplug_u32 place) {
    const cuplug_u64 offset = address - (cuplug_u64)state->base();
    const bool is_shared = offset < SHARED + SHARED_NBYTES;
    if ((kind & TOUCH_ATOMIC) || (nbytes != 4 && nbytes != 8 && nbytes != 16) || (address & (nbytes - 1)) ||
        pending.waits || by_simple_form || (offset < REGION && !is_shared) || offset < SHARED)
        return false;
    if (*(const volatile unsigned char*)shadow::of(address)) return false;
    if (nbytes == 16 && *(const volatile unsigned char*)shadow::of(address + 8)) return false;
    Cell* cell = is_shared ? &told.of_shared[(offset - SHARED) / CELL] : cell_at(address);
    const cuplug_u32 thread = state->thread, since = is_shared ? block_time : launch_time;
    const Access mine = access_of(now, thread, 15, kind, codes.number(place));
    Cell* const end = cell + nbytes / CELL;
    if (kind & TOUCH_WRITE) {
        if (in_module(state, address)) return false;
        for (Cell* it = cell; it < end; ++it)
            if (!is_past(it->write, thread, since) || !is_past(it->reads[0], thread, since) ||
                !is_past(it->reads[1], thread, since))
                return false;
        for (Cell* it = cell; it < end; ++it) it->write = mine;
        return true;
    }
    for (Cell* it = cell; it < end; ++it, address += CELL)
        if (!is_past(it->write, thread, since) || *(const cuplug_u32*)address == POISON * 0x01010101u) return false;
    for (Cell* it = cell; it < end; ++it) {
        const bool is_first = is_past(it->reads[0], thread, since) ||
                              (it->reads[0].time >= block_time && ordered(thread, it->reads[0]));
        it->reads[!is_first] = mine;
    }
    return true;
}

__attribute__((noinline)) static void touch_any(State* state, cuplug_u64 address, cuplug_u32 nbytes, cuplug_u32 kind,
                                                cuplug_u32 place) {
    if (pending.waits) settle(state);
    const cuplug_u64 offset = address - (cuplug_u64)state->base(), end = address + nbytes;
    if (offset < USED) return;  // the worker's own
    const bool is_local = offset < REGION && offset >= MAIN_STACK;
    const bool is_shared = offset < SHARED + SHARED_NBYTES;
    const cuplug_u32 since = is_shared ? block_time : launch_time;
    if (!checked(address, end) || offset < SHARED || (offset < MAIN_STACK && !is_shared)) {
        const bool writes = (kind & TOUCH_WRITE) != 0;
        if (is_local || offset < MAIN_STACK) report_outside(state, address, place, writes ? "a write" : "a read");
        if (is_local) report(state, address, place, writes ? "a write outside of" : "a read outside of");
        settle_unwritten(state);  // which may have been the address
        illegal_access(address, nbytes, (kind & TOUCH_WRITE) != 0, (const char*)state->launch->code_begin + place);
    }
    const cuplug_u32 thread = state->thread, time = now, number = codes.number(place);
    if (is_local) {  // a thread's own; the arrays that the translation knows begin as poison
        if (kind & TOUCH_READ && nbytes >= 4 && is_poison(address, nbytes) && local_names.find(address).about)
            report(state, address, place, "a read of local memory that was never written:");
        return;
    }
    bool written = !(kind & TOUCH_READ);
    if (kind & TOUCH_WRITE)
        for (cuplug_u32 i = 0; i < constant_count; ++i)
            if (address - constants[2 * i] < constants[2 * i + 1])
                report(state, address, place, "a write to __constant__ memory, which kernels only read:");
    if (kind & TOUCH_ATOMIC && kind & TOUCH_READ) acquire_at(thread, address);
    const cuplug_u64 last = (end - 1) & ~(cuplug_u64)(CELL - 1);
    for (cuplug_u64 first = address & ~(cuplug_u64)(CELL - 1); first <= last; first += CELL) {
        Cell* cell = is_shared ? &told.of_shared[(first - (cuplug_u64)state->base() - SHARED) / CELL] : cell_at(first);
        const Access part = access_of(time, thread, bytes_of(first, address, end), kind, number);
        if (cell->write.time >= since && (cell->write.bytes & part.bytes)) written = true;
        const cuplug_u64 from = first > address ? first : address;
        remember(state, *cell, part, since, from, (cuplug_u32)((end < first + CELL ? end : first + CELL) - from));
    }
    if (!written) {
        if (is_shared) {
            if (is_poison(address, nbytes)) note_unwritten(address, place, thread, "a read of shared memory not written yet by any thread (a barrier may be missing):");
        } else {
            const cuplug_u64 whole = nbytes < 4 ? address & ~7ull : address;
            if (is_poison(whole, nbytes < 4 ? 8 : nbytes) && checked(whole, whole + (nbytes < 4 ? 8 : nbytes)))
                note_unwritten(address, place, thread, "a read of global memory that was never written:");
        }
    }
    if (kind & TOUCH_ATOMIC && kind & TOUCH_WRITE) release_at(thread, address, (kind & TOUCH_ORDERED) != 0);
}

// Lets a strip tell of the cells at an address that nobody has touched in this launch. Whether it does: not of memory
// part of which nobody may touch, nor of a module's own, which may be constants.
static Strip* begun[2];  // the last two
static bool begin_strip(State* state, cuplug_u64 address) {
    if (told.time != now || in_lockstep) return false;
    if (*(const volatile unsigned char*)shadow::of(address)) return false;  // which may be a fault that tells the address
    Strip* strip = strip_at(address);
    if (strip->time >= launch_time) return false;
    if (*(const volatile cuplug_u32*)shadow::of(address & ~(STRIP - 1)) || in_module(state, address)) return false;
    // The next one is as far off as the last but one was, as a rule: rows of matrices, or two arrays in turn.
    __builtin_prefetch((char*)strip + ((char*)strip - (char*)begun[0]), 1);
    begun[0] = begun[1];
    begun[1] = strip;
    strip->time = now;
    strip->done[READ] = strip->done[WRITTEN] = strip->others = strip->mixed = 0;
    return true;
}

static bool is_quiet_now(cuplug_u64 address, cuplug_u32 nbytes, cuplug_u32 kind, cuplug_u64 code) {
    const bool writes = kind == TOUCH_WRITE;
    if (nbytes == 4) return (writes ? is_quiet<4, true, unsigned short> : is_quiet<4, false, unsigned short>)(address, code);
    if (nbytes == 8) return (writes ? is_quiet<8, true, cuplug_u32> : is_quiet<8, false, cuplug_u32>)(address, code);
    if (nbytes == 16) return (writes ? is_quiet<16, true, cuplug_u64> : is_quiet<16, false, cuplug_u64>)(address, code);
    return false;
}

static void touch(cuplug_u64 address, cuplug_u32 nbytes, cuplug_u32 kind, cuplug_u64 code) {
    State* state = (State*)self();
    if (kind <= TOUCH_WRITE && address - (cuplug_u64)state->base() >= REGION && begin_strip(state, address) &&
        is_quiet_now(address, nbytes, kind, code + 1))
        return;
    const cuplug_u32 place = (cuplug_u32)(code - state->launch->code_begin);
    if (!is_plain(state, address, nbytes, kind, place)) touch_any(state, address, nbytes, kind, place);
}

// --- local arrays

constexpr cuplug_u64 BESIDE = 64;  // bytes before and behind, which nobody may touch

static void begin_local(char* start, cuplug_u64 offset, const Named* about, int plain) {
    const cuplug_u64 nbytes = about->nbytes;
    if (plain) memset(start + offset, POISON, nbytes);
    local_names.add(start + offset, about);
    shadow::write({(cuplug_u64)start, offset}, false);
    const cuplug_u64 end = (cuplug_u64)start + offset + nbytes, behind = (end + 7) & ~7ull;
    memset((void*)shadow::of(behind), shadow::FORBIDDEN, BESIDE / 8);
    if (end & 7) *(unsigned char*)shadow::of(end) = (unsigned char)(end & 7);
}

static void end_local(char* start, cuplug_u64 offset, cuplug_u64 nbytes) {
    const cuplug_u64 behind = ((cuplug_u64)start + offset + nbytes + 7) & ~7ull;
    memset((void*)shadow::of((cuplug_u64)start), 0, shadow::of(behind + BESIDE) - shadow::of((cuplug_u64)start));
    local_names.drop(start + offset);
}

// --- launches and blocks

static void forget_shortcuts() {
    for (Place*& head : places)
        while (Place* place = head) {
            head = place->next;
            free(place->releases);
            free(place->links.items);
            free(place);
        }
    place_count = 0;
    for (Views& its : views) its.count = 0;
    of_block.count = 0;
    any_views = false;
}

// Stacks that an earlier kernel was taken from in its middle may still have what nobody may touch.
static void clear_stacks(State* state) {
    memset((void*)shadow::of((cuplug_u64)state->base() + MAIN_STACK), 0,
           (STACKS - MAIN_STACK + (cuplug_u64)state->stacks_ready * STACK_NBYTES) / 8);
}

static void begin_launch(State* state, const Launch* launch) {
    const cuplug_u64* ranges = launch->constants;
    const cuplug_u32 count = launch->constant_count;
    if (!told.of_shared) {
        told.of_shared = (Cell*)mmap(nullptr, SHARED_NBYTES / CELL * sizeof(Cell), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        forget_recent();
    }
    forget_shortcuts();
    launch_time = grid_time = tick();
    turns.count = 0;
    if (codes.count > 1 << 12) codes.clear();
    by_simple_form = launch->races == 2;
    in_lockstep = launch->kernel->habits & LOCKSTEP;
    told.code_begin = (cuplug_u32)launch->code_begin + 1;
    constant_count = count < 256 ? count : 256;
    memcpy(constants, ranges, constant_count * 2 * sizeof(cuplug_u64));
    local_names.count = 0;
    pending.waits = unwritten.waits = held_race.waits = false;
    clear_stacks(state);
}

// Forgets what was done to memory that is given out anew.
static void forget(cuplug_u64 address, cuplug_u64 nbytes) {
    for (cuplug_u64 at = address & ~(cuplug_u64)(CELL - 1); at < address + nbytes; at += CELL)
        *cell_at(at) = Cell();
}

static void end_block(State* state) {
    settle(state);
    tell_held_race(state);
    settle_unwritten(state);
}

static void begin_block(State* state) {
    block = (cuplug_u32)state->block_index;
    block_time = told.barrier_time = tick();
    show_meeting();
    turns.add(block_time, block);
    if (any_views)
        for (Views& its : views) its.count = 0;
    of_block.count = 0;
}

// Goes on with a block behind a meeting of the whole grid, which orders all that was before.
static void resume_block(State* state) {
    begin_block(state);
    grid_time = block_time;
}

// What an earlier launch did is told by its time. Cells go back where they are many.
static void end_launch() {
    pending.waits = unwritten.waits = held_race.waits = false;
    forget_shortcuts();
    if (stretch_count <= KEPT_STRETCHES) return;
    for (Stretch*& head : buckets)
        while (Stretch* stretch = head) {
            head = stretch->next;
            munmap(stretch, sizeof(Stretch));
        }
    forget_recent();
    stretch_count = 0;
}

}  // namespace races
