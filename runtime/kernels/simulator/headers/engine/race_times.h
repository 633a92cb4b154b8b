// When accesses were, and what each thread of the running block knows of the others.
#pragma once

#include "../strips.h"
#include "faults.h"

namespace races {

constexpr char FOR_RACES[] = "what check=\"races\" keeps of accesses: check fewer blocks at once, or less memory";

static Told told;

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

}  // namespace races
