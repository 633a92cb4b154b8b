// What threads do to one another's memory, for kernels compiled with check="races".
//
// Every access is remembered with its thread and time: of each four bytes the last write and up to two reads. Time counts
// up with whatever orders threads. An access is ordered behind a remembered one if it is of the same thread, behind a
// barrier that both came to, behind a warp function that both took part in, or behind a chain of releases and acquires: a
// fence, then an atomic or volatile write, then an atomic or volatile read of the same place. What conflicts and is not
// ordered is a race, unless it is a write that changes nothing. Blocks run one after the other, so that all is exact and
// the same in every run.
#pragma once

#include "local_arrays.h"
#include "race_order.h"

namespace races {

constexpr cuplug_u32 BUCKETS = 1 << 10;
static Stretch* buckets[BUCKETS];
static cuplug_u32 stretch_count = 0;
constexpr cuplug_u32 KEPT_STRETCHES = 10;  // from one launch to the next: 220 MB, if all of their memory is touched

static cuplug_u64 constants[2 * 256];
static cuplug_u32 constant_count = 0;

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
    local_arrays::allow_stacks(state);
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
