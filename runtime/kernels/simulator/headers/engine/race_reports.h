// What is told of races, and of reads of what nobody wrote: which place it was, and who was there.
#pragma once

#include "race_times.h"

namespace races {

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

}  // namespace races
