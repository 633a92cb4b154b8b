// The threads of a block that wait for each other: fibres, barriers and the warp-wide functions.
//
// Every thread runs until it must wait; then another lane of its warp goes on, else a thread that has not begun, else
// another warp. Nothing here depends on time, so a block always runs alike.
//
// Since Volta a barrier waits for the threads that have not exited (CUDA C++ Programming Guide, "Synchronization
// Functions"; PTX ISA, "barrier"). So a thread that has left the kernel by a `return` has come to every barrier, tile and
// warp function that follows: it takes no part in votes, counts and reductions, and who reads from it by a shuffle reads
// zero. A barrier of the grid needs the block's first thread, which tells the other blocks, and a tile of several warps
// the first thread of each, which tells the other warps. A thread that came to the end of the kernel without a barrier
// that others wait at went past it: that is a divergent barrier, as ever.
#pragma once

#include "grid.h"

static void enter_thread(State* state, cuplug_u32 thread) {
    Dim size = state->blockDim;
    state->thread = thread;
    if (thread < size.x) state->threadIdx = {thread, 0, 0};
    else state->threadIdx = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
}

static void begin_thread(cuplug_u32 thread) {
    State* state = (State*)self();
    state->next_thread = thread + 1;
    state->status[thread] = RUNNABLE;
    enter_thread(state, thread);
}

static void fibre_entry();
static bool converge(State* state);
__attribute__((noreturn)) static void report_deadlock(State* state);

// Chooses what goes on, makes it current and returns where its stack stands: null for the running thread itself.
static void* choose(State* state) {
    cuplug_u32 running = state->thread;
    for (;;) {
        cuplug_u32 warp = state->thread / 32, lane = state->thread % 32;
        if (!state->ready[warp]) {
            if (state->next_thread < state->thread_count)
                return fresh_stack(stack_top(state, state->stacks_used++), fibre_entry);
            cuplug_u32 other = warp;
            do other = other + 1 < state->warps ? other + 1 : 0;
            while (other != warp && !state->ready[other]);
            warp = other;
            lane = 31;
        }
        if (cuplug_u32 ready = state->ready[warp]) {
            cuplug_u32 later = lane == 31 ? 0 : ready & ~((2u << lane) - 1);
            lane = (cuplug_u32)__builtin_ctz(later ? later : ready);
            state->ready[warp] &= ~(1u << lane);
            cuplug_u32 thread = warp * 32 + lane;
            state->status[thread] = RUNNABLE;
            if (thread == running) {
                state->thread = thread;
                return nullptr;
            }
            enter_thread(state, thread);
            return state->stack[thread];
        }
        if (state->gone + state->left == state->thread_count) return state->main;
        if (!converge(state)) report_deadlock(state);
    }
}

static void wait(State* state) {
    cuplug_u32 thread = state->thread;
    if (void* target = choose(state)) cuplug_switch(&state->stack[thread], target);
}

static void fibre_entry() {
    State* state = (State*)self();
    state->kernel->run(state);
    void* unused;
    cuplug_switch(&unused, choose(state));
    __builtin_unreachable();
}

static void run_fibres(State* state) {
    cuplug_u32 count = state->thread_count;
    state->warps = (count + 31) / 32;
    for (cuplug_u32 warp = 0; warp < state->warps; ++warp) {
        cuplug_u32 lanes = count - warp * 32;
        state->live[warp] = lanes >= 32 ? ~0u : (1u << lanes) - 1;
        state->ready[warp] = state->exchanging[warp] = state->at_barrier[warp] = state->left_lanes[warp] = 0;
    }
    memset(state->at_tile, 0, sizeof state->at_tile);
    memset(state->status, UNBORN, count);
    memset(state->line, 0, count * sizeof state->line[0]);
    state->next_thread = state->arrived = state->gone = state->left = state->stacks_used = state->leaves = 0;
    state->diverged = 0;
    state->thread = 0;
    cuplug_switch(&state->main, choose(state));
}

// --- barriers

constexpr int MEET_GRID = 4;  // a `reduction`: the block's last thread waits for the other blocks

// Lets all threads of the block that have come to the barrier go on: those that have not left. What the last of them to
// come, or to leave, calls.
static void open_barrier(State* state) {
    if (state->launch->races) races::at_barrier(state);
    state->arrived = 0;
    state->barrier_result = state->reduced;
    for (cuplug_u32 warp = 0; warp < state->warps; ++warp) {
        state->ready[warp] = state->live[warp];
        state->at_barrier[warp] = 0;
    }
    if (!state->meets_grid) return;
    if (state->status[0] == LEFT)
        stop(FAULT_LAUNCH_FAILED, "grid-wide synchronisation needs the first thread of each block, and thread (0, 0, 0) has returned");
    grid::meet(state, state->meets_grid);
}

static int barrier(int line, int reduction, int value) {
    State* state = (State*)self();
    if (state->thread_count == 1) {
        if (reduction == MEET_GRID) grid::meet(state, line);
        return value != 0;
    }
    if (!state->kernel->fibres)
        stop(FAULT_LAUNCH_FAILED, "a barrier or warp function was reached that the translation of the source did not "
                                  "see; compile with the option -DCUPLUG_BARRIERS and please report it");
    cuplug_u32 thread = state->thread;
    // Warps may wait in different lines, as on hardware, which counts who arrives; the lanes of one may not.
    cuplug_u32 warp = thread / 32;
    if (!state->arrived++) state->reduced = reduction == 2, state->meets_grid = 0;
    if (reduction == MEET_GRID) state->meets_grid = line;
    if (!state->at_barrier[warp]++) state->warp_line[warp] = line;
    state->line[thread] = line;
    if (reduction == 1) state->reduced += value != 0;
    if (reduction == 2) state->reduced &= value != 0;
    if (reduction == 3) state->reduced |= value != 0;
    state->status[thread] = AT_BARRIER;
    if (line != state->warp_line[warp]) state->diverged = 1;  // told when all have come as far as they can
    if (state->arrived + state->left == state->thread_count && !state->diverged) {
        state->status[thread] = RUNNABLE;
        open_barrier(state);
        state->ready[warp] &= ~(1u << thread % 32);
    } else {
        wait(state);
    }
    return state->barrier_result;
}

static void meet_grid(int line) {
    State* state = (State*)self();
    if (!state->launch->cooperative)
        stop(FAULT_LAUNCH_FAILED, "grid-wide synchronisation needs a cooperative launch: call the kernel with cooperative=True, "
             "which kernels of cuplug.SourceModule take");
    barrier(line, MEET_GRID, 0);
}

// --- tiles of several warps

// "(33, 0, 0)", for messages.
struct ThreadName {
    char text[40];
    ThreadName(State* state, cuplug_u32 thread) {
        const Dim size = state->blockDim;
        snprintf(text, sizeof text, "(%u, %u, %u)", thread % size.x, thread / size.x % size.y, thread / size.x / size.y);
    }
};

// Ends a kernel that uses a tile as a GPU cannot: `thread` is one that waits there.
__attribute__((noreturn)) static void refuse_tile(State* state, cuplug_u32 thread, cuplug_u32 count, const char* why) {
    enter_thread(state, thread);
    record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "tile of %u threads in {line %d}: %s", count, state->line[thread], why);
    escape(state);
}

// What CUDA's tiles need, of which neither nvcc nor a GPU says so (<cooperative_groups.h> of CUDA 13): the first thread of
// each warp tells the others that its warp has come; one warp holds what a shuffle hands on; and the first threads of
// whichever warp comes last, as many as there are warps, combine what these have found.
static void check_tile(State* state, cuplug_u32 warp, cuplug_u32 count) {
    const cuplug_u32 first = warp * 32, warps = count / 32;
    const Status* status = &state->status[first];
    Exchange** all = &state->exchange[first];
    char why[700];
    cuplug_u32 there = 0;
    while (status[there] == LEFT) ++there;  // one thread at least waits, or is the one that has come
    const Exchange* e = all[there];
    const ThreadName who(state, first + there);
    for (cuplug_u32 i = there; i < count; ++i) {
        if (status[i] == LEFT || all[i]->operation == e->operation) continue;
        snprintf(why, sizeof why, "thread %s has come to another function of the tile than thread %s, which waits in {line %u}, "
                 "and all threads of a tile must come to the same one", who.text, ThreadName(state, first + i).text, all[i]->line);
        refuse_tile(state, first + there, count, why);
    }
    for (cuplug_u32 i = 0; state->left && i < count; ++i) {
        if (status[i] != LEFT) continue;
        const ThreadName gone(state, first + i);
        if (i % 32 == 0)
            snprintf(why, sizeof why, "thread %s, the first of its warp, has returned. It is the one that tells the tile's other "
                     "warps that its own has come, and without it a GPU waits for ever. Let the first thread of each warp stay, "
                     "or all of them: use the tile first, and return behind it", gone.text);
        else if (e->operation >= TILE_REDUCE)
            snprintf(why, sizeof why, "thread %s has returned, and reductions and scans need all threads of a tile: their result "
                     "is undefined without it. Let it stay, with a value that changes nothing", gone.text);
        else if (e->operation == TILE_VOTE && i % 32 < warps)
            snprintf(why, sizeof why, "thread %s has returned, and any() and all() combine what the tile's %u warps have found by "
                     "the first %u threads of a warp: the result is undefined without it. Let it stay", gone.text, warps, warps);
        else
            continue;
        refuse_tile(state, first + there, count, why);
    }
    if (e->operation != TILE_SHUFFLE) return;
    for (cuplug_u32 i = there; i < count; ++i) {
        if (status[i] == LEFT || all[i]->argument == e->argument) continue;
        snprintf(why, sizeof why, "shfl() is to read from rank %u in thread %s and from rank %u in thread %s, and a tile of "
                 "several warps has one source for all of its threads: where two warps have sources, a GPU waits for ever. Name "
                 "one rank, or exchange the values in shared memory, with tile.sync() between writing and reading", e->argument, who.text,
                 all[i]->argument, ThreadName(state, first + i).text);
        refuse_tile(state, first + there, count, why);
    }
    if (e->argument >= count) {
        snprintf(why, sizeof why, "shfl() is to read from rank %u, and ranks go from 0 to %u: a GPU would wait for a warp that "
                 "the tile does not have", e->argument, count - 1);
        refuse_tile(state, first + there, count, why);
    }
    if (status[e->argument] == LEFT) {
        snprintf(why, sizeof why, "shfl() is to read from rank %u, thread %s, which has returned: the result is undefined",
                 e->argument, ThreadName(state, first + e->argument).text);
        refuse_tile(state, first + there, count, why);
    }
}

// The threads of a tile that is larger than a warp, and that have not left, are all there: lets them go on.
static void open_tile(State* state, cuplug_u32 warp, cuplug_u32 count) {
    const cuplug_u32 first = warp * 32;
    check_tile(state, warp, count);
    state->at_tile[__builtin_ctz(count) - 6][warp] = 0;
    if (state->launch->races) races::at_barrier(state);
    Exchange** all = &state->exchange[first];
    const Status* status = &state->status[first];
    cuplug_u32 there = 0, total = 0;
    for (cuplug_u32 i = 0; i < count; ++i) {
        there += status[i] != LEFT;
        total += status[i] != LEFT && all[i]->value[0] != 0;
    }
    for (cuplug_u32 i = 0; i < count; ++i) {
        if (status[i] == LEFT) continue;
        const Exchange* source = all[all[i]->argument];
        all[i]->result[0] = all[i]->operation == TILE_VOTE ? there : source->value[0];
        all[i]->flag = total;
        state->status[first + i] = RUNNABLE;
    }
    for (cuplug_u32 other = warp; other < warp + count / 32; ++other) state->ready[other] = state->live[other];
}

static bool tile_is_there(State* state, cuplug_u32 warp, cuplug_u32 count) {
    cuplug_u32 there = state->at_tile[__builtin_ctz(count) - 6][warp];
    for (cuplug_u32 other = warp; state->left && other < warp + count / 32; ++other)
        there += (cuplug_u32)__builtin_popcount(state->left_lanes[other]);
    return there == count;
}

static void meet_tile(cuplug_u32 first, cuplug_u32 count, Exchange* e) {
    State* state = (State*)self();
    if (!state->kernel->fibres) barrier(0, 0, 0);  // reports it
    const cuplug_u32 thread = state->thread, warp = first / 32;
    state->exchange[thread] = e;
    state->line[thread] = (int)e->line;
    if (first + count > state->thread_count) {
        char why[200];
        snprintf(why, sizeof why, "the block has %u threads, too few for this tile: a GPU waits for ever for a warp that is not there. "
                 "Let the block have a multiple of %u threads", state->thread_count, count);
        refuse_tile(state, thread, count, why);
    }
    state->status[thread] = AT_TILE;
    ++state->at_tile[__builtin_ctz(count) - 6][warp];
    if (!tile_is_there(state, warp, count)) {
        wait(state);
        return;
    }
    open_tile(state, warp, count);
    state->ready[thread / 32] &= ~(1u << thread % 32);
}

// Opens the tiles that waited for a thread of this warp, which has left.
static void open_tiles_of(State* state, cuplug_u32 warp) {
    for (cuplug_u32 count = 64; count <= state->thread_count && count <= MAX_THREADS; count *= 2) {
        const cuplug_u32 first = warp & ~(count / 32 - 1);
        if (state->at_tile[__builtin_ctz(count) - 6][first] && tile_is_there(state, first, count)) open_tile(state, first, count);
    }
}

// --- what is told when nobody can go on

// "; 32 of 64 threads, the first (0, 0, 0), wait at the barrier in line 7", for each place where threads are.
static void describe_waiting(State* state, char* text, size_t room) {
    size_t used = strlen(text);
    for (cuplug_u32 first = 0; first < state->thread_count && used < room; ++first) {
        const Status status = state->status[first];
        if (status < AT_BARRIER || status > GONE) continue;
        auto is_alike = [&](cuplug_u32 thread) {
            return state->status[thread] == status && (status == GONE || state->line[thread] == state->line[first]);
        };
        cuplug_u32 before = 0, count = 0;
        while (before < first && !is_alike(before)) ++before;
        if (before < first) continue;  // told already
        for (cuplug_u32 thread = first; thread < state->thread_count; ++thread) count += is_alike(thread);
        char at[80];
        const ThreadName who(state, first);
        const char* where = status == AT_BARRIER ? "at the barrier in" : status == AT_TILE ? "for the tile in" : "in the warp function in";
        if (status == GONE) snprintf(at, sizeof at, "%s come to the end of the kernel without it", count == 1 ? "has" : "have");
        else snprintf(at, sizeof at, "%s %s {line %d}", count == 1 ? "waits" : "wait", where, state->line[first]);
        used += (size_t)(count == 1 ? snprintf(text + used, room - used, "; thread %s %s", who.text, at)
                                    : snprintf(text + used, room - used, "; %u of %u threads, the first %s, %s", count,
                                               state->thread_count, who.text, at));
    }
}

__attribute__((noreturn)) static void report_deadlock(State* state) {
    char text[900];
    bool at_barrier = state->arrived > 0, in_tile = false;
    for (const auto& waiting : state->at_tile)
        for (cuplug_u32 warp = 0; warp < state->warps; ++warp) in_tile |= waiting[warp] > 0;
    snprintf(text, sizeof text, at_barrier ? "divergent barrier: not all threads of the block reach the same __syncthreads()"
                              : in_tile    ? "divergent tile: not all of its threads reach the same function of the tile"
                                           : "divergent warp function: not all lanes of its mask reach it");
    describe_waiting(state, text, sizeof text);
    cuplug_u32 first = 0;
    while (first < state->thread_count && (state->status[first] < AT_BARRIER || state->status[first] > EXCHANGING)) ++first;
    cuplug_u32 reporter = first < state->thread_count ? first : 0;
    for (cuplug_u32 thread = first; thread < state->thread_count; ++thread)  // rather one at a second barrier
        if (state->status[thread] == AT_BARRIER && state->line[thread] != state->line[first]) {
            reporter = thread;
            break;
        }
    enter_thread(state, reporter);
    held_race.waits = false;  // it came of this
    record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "%s", text);
    escape(state);
}

// --- functions of a warp

static cuplug_u64 combine(Exchange** lanes, cuplug_u32 group, cuplug_u32 operation) {
    bool first = true;
    cuplug_u64 total = 0;
    for (cuplug_u32 rest = group; rest; rest &= rest - 1) {
        cuplug_u64 value = lanes[__builtin_ctz(rest)]->value[0];
        bool less = operation == COLLECT_MIN || operation == COLLECT_MAX ? (int)value < (int)total
                                                                          : (unsigned)value < (unsigned)total;
        if (first) total = value;
        else if (operation == COLLECT_ADD) total += value;
        else if (operation == COLLECT_AND) total &= value;
        else if (operation == COLLECT_OR) total |= value;
        else if (operation == COLLECT_XOR) total ^= value;
        else if (less == (operation == COLLECT_MIN || operation == COLLECT_MIN_UNSIGNED)) total = value;
        first = false;
    }
    return total;
}

// The lane that a shuffle reads from.
static cuplug_u32 source_of(const Exchange* e, cuplug_u32 lane) {
    cuplug_u32 base = lane & ~(e->width - 1);
    switch (e->operation) {
        case COLLECT_SHUFFLE: return base + (e->argument & (e->width - 1));
        case COLLECT_SHUFFLE_UP: return e->argument > lane - base ? lane : lane - e->argument;
        case COLLECT_SHUFFLE_DOWN: return e->argument >= base + e->width - lane ? lane : lane + e->argument;
        case COLLECT_SHUFFLE_XOR: return (lane ^ e->argument) >= base + e->width ? lane : lane ^ e->argument;
        default: return lane;
    }
}

static void compute_lane(Exchange** lanes, cuplug_u32 group, cuplug_u32 lane, cuplug_u64 total) {
    Exchange* e = lanes[lane];
    e->result[0] = total;
    e->result[1] = 0;
    const cuplug_u32 source = source_of(e, lane);
    switch (e->operation) {
        case COLLECT_SHUFFLE: case COLLECT_SHUFFLE_UP: case COLLECT_SHUFFLE_DOWN: case COLLECT_SHUFFLE_XOR: break;
        case COLLECT_MATCH_ANY: {
            cuplug_u64 same = 0;
            for (cuplug_u32 rest = group; rest; rest &= rest - 1)
                if (lanes[__builtin_ctz(rest)]->value[0] == e->value[0]) same |= rest & -rest;
            e->result[0] = same;
            return;
        }
        default: return;
    }
    if (!(group >> source & 1)) {  // a lane that takes no part: undefined, and zero on GPUs
        e->result[0] = 0;
        return;
    }
    e->result[0] = lanes[source]->value[0];
    e->result[1] = lanes[source]->value[1];
}

// Lanes that a mask names must take part, if they have not returned before; and what a shuffle reads must be there.
static void check_mask(State* state, Exchange** lanes, cuplug_u32 warp, cuplug_u32 group, cuplug_u32 lane) {
    Exchange* e = lanes[lane];
    if (e->converging) return;
    const char* wrong = nullptr;
    cuplug_u32 who = lane;
    const cuplug_u32 in_block = state->thread_count - warp * 32, there = in_block >= 32 ? ~0u : (1u << in_block) - 1;
    const cuplug_u32 absent = e->mask & there & ~group;
    if (!(e->mask >> lane & 1)) {
        wrong = "its mask does not name the lane that calls it";
    } else if (absent && !(state->kernel->habits & RETURNS)) {
        wrong = "its mask names a lane that does not take part";
        who = (cuplug_u32)__builtin_ctz(absent);
    } else if (absent && e->operation >= COLLECT_SHUFFLE && e->operation <= COLLECT_SHUFFLE_XOR) {
        const cuplug_u32 source = source_of(e, lane);
        if (!(absent >> source & 1)) return;
        wrong = "it reads from a lane that its mask names and that has returned";
        who = source;
    }
    if (!wrong) return;
    enter_thread(state, warp * 32 + lane);
    record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "warp function in {line %u}, mask %#x: %s, lane %u", e->line, e->mask, wrong, who);
    escape(state);
}

// Completes one use of a warp function by `group`. The lanes but for the running thread become ready.
static void complete(State* state, cuplug_u32 warp, cuplug_u32 group) {
    Exchange** lanes = &state->exchange[warp * 32];
    cuplug_u32 operation = lanes[__builtin_ctz(group)]->operation;
    if (state->launch->races) races::at_exchange(state, warp, group);
    cuplug_u64 total = 0;
    if (operation == COLLECT_BALLOT) {
        for (cuplug_u32 rest = group; rest; rest &= rest - 1)
            if (lanes[__builtin_ctz(rest)]->value[0]) total |= rest & -rest;
    } else if (operation == COLLECT_ACTIVE) {
        total = group;
    } else if (operation == COLLECT_MATCH_ALL) {
        bool same = true;
        for (cuplug_u32 rest = group; rest; rest &= rest - 1)
            same &= lanes[__builtin_ctz(rest)]->value[0] == lanes[__builtin_ctz(group)]->value[0];
        total = same ? group : 0;
    } else if (operation >= COLLECT_ADD && operation <= COLLECT_XOR) {
        total = combine(lanes, group, operation);
    }
    for (cuplug_u32 rest = group; rest; rest &= rest - 1) {
        cuplug_u32 lane = (cuplug_u32)__builtin_ctz(rest);
        if (state->launch->races) check_mask(state, lanes, warp, group, lane);
        compute_lane(lanes, group, lane, total);
        lanes[lane]->flag = total != 0;
        state->status[warp * 32 + lane] = RUNNABLE;
    }
    state->exchanging[warp] &= ~group;
    state->ready[warp] |= group;
}

// Completes the use that `e` belongs to if every lane that it names has arrived.
static void try_complete(State* state, cuplug_u32 warp, Exchange* e, cuplug_u32 own) {
    cuplug_u32 expected = (e->mask & state->live[warp]) | own, group = 0;
    if (expected & ~state->exchanging[warp]) return;
    for (cuplug_u32 rest = expected; rest; rest &= rest - 1) {
        Exchange* other = state->exchange[warp * 32 + (cuplug_u32)__builtin_ctz(rest)];
        if (other->operation != e->operation || other->mask != e->mask) return;
        if (e->converging && other->line != e->line) return;
        group |= rest & -rest;
    }
    complete(state, warp, group);
}

static void exchange(Exchange* e) {
    State* state = (State*)self();
    if (!state->kernel->fibres && state->thread_count > 1) barrier(0, 0, 0);  // reports it
    cuplug_u32 thread = state->thread, warp = thread / 32, bit = 1u << thread % 32;
    state->exchange[thread] = e;
    if (!state->kernel->fibres) {  // a single thread
        state->live[0] = 1;
        complete(state, 0, 1);
        return;
    }
    state->line[thread] = (int)e->line;
    state->status[thread] = EXCHANGING;
    state->exchanging[warp] |= bit;
    try_complete(state, warp, e, bit);
    if (state->ready[warp] & bit) state->ready[warp] &= ~bit;  // complete: go on at once
    else wait(state);
}

static void end_thread() {
    State* state = (State*)self();
    cuplug_u32 thread = state->thread, warp = thread / 32;
    if (state->launch->races) races::settle(state);
    const bool leaves = state->leaves || (state->kernel->habits & LEAVES);
    state->leaves = 0;
    state->status[thread] = leaves ? LEFT : GONE;
    state->live[warp] &= ~(1u << thread % 32);
    if (leaves) {
        state->left_lanes[warp] |= 1u << thread % 32;
        ++state->left;
        if (state->arrived && state->arrived + state->left == state->thread_count && !state->diverged) open_barrier(state);
        open_tiles_of(state, warp);
    } else {
        ++state->gone;
    }
    for (cuplug_u32 rest = state->exchanging[warp]; rest; rest &= rest - 1) {
        cuplug_u32 lane = (cuplug_u32)__builtin_ctz(rest);
        if (state->exchanging[warp] >> lane & 1) try_complete(state, warp, state->exchange[warp * 32 + lane], 1u << lane);
    }
}

// When nothing else can go on: lets functions without a mask of their own run with the lanes that are there.
static bool converge(State* state) {
    for (cuplug_u32 warp = 0; warp < state->warps; ++warp) {
        for (cuplug_u32 rest = state->exchanging[warp]; rest; rest &= rest - 1) {
            Exchange* e = state->exchange[warp * 32 + (cuplug_u32)__builtin_ctz(rest)];
            if (!e->converging) continue;
            cuplug_u32 group = 0;
            for (cuplug_u32 other = rest; other; other &= other - 1) {
                Exchange* candidate = state->exchange[warp * 32 + (cuplug_u32)__builtin_ctz(other)];
                if (candidate->operation == e->operation && candidate->line == e->line) group |= other & -other;
            }
            complete(state, warp, group);
            return true;
        }
    }
    return false;
}

// A thread that spins lets the other threads of its block go on: those that have not begun, then the next ones.
static void yield() {
    State* state = (State*)self();
    if (!state->kernel->fibres) return;
    cuplug_u32 thread = state->thread, warp = thread / 32;
    if (state->next_thread < state->thread_count) {
        void* target = fresh_stack(stack_top(state, state->stacks_used++), fibre_entry);
        state->ready[warp] |= 1u << thread % 32;
        cuplug_switch(&state->stack[thread], target);
        return;
    }
    // In the order of threads, so that each of those that spin gets its turn.
    cuplug_u32 next = warp, candidates = state->ready[warp] & ~((2u << thread % 32) - 1);
    while (!candidates) {
        next = next + 1 < state->warps ? next + 1 : 0;
        candidates = state->ready[next];
        if (next == warp) break;
    }
    if (!candidates) return;  // nobody else can go on
    cuplug_u32 lane = (cuplug_u32)__builtin_ctz(candidates);
    state->ready[next] &= ~(1u << lane);
    state->ready[warp] |= 1u << thread % 32;
    enter_thread(state, next * 32 + lane);
    cuplug_switch(&state->stack[thread], state->stack[next * 32 + lane]);
}
