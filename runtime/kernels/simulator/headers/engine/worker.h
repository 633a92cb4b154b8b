// A worker: what one thread of the process needs to run blocks, in a region of its own.
#pragma once

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../abi.h"
#include "shadow.h"
#include "switch.h"

using namespace __cuplug;

constexpr cuplug_u32 MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / 32, TILE_SIZES = 5;
constexpr cuplug_u64 GUARD = 4096;

// The region's parts, as offsets. The worker itself comes first.
constexpr cuplug_u64 PARAMETERS = 256 << 10, PARAMETERS_NBYTES = 32 << 10;
constexpr cuplug_u64 SLOTS = 320 << 10;
static_assert(SLOTS + MAX_SLOTS * sizeof(SharedSlot) <= USED, "room before the shared memory");
constexpr cuplug_u64 SHARED = OWN, SHARED_MARGIN = SHARED - USED;
constexpr cuplug_u64 MAIN_STACK = LOCAL, MAIN_STACK_NBYTES = 1 << 20;
// For the 512 KiB of local memory that CUDA gives a thread, what checks put between its arrays, and a guard. An odd number
// of pages, and tops that are not aligned alike, so that stacks do not meet in the same cache sets.
constexpr cuplug_u64 STACKS = 2 << 20, STACK_NBYTES = 133 * 4096;
static_assert(STACKS + MAX_THREADS * STACK_NBYTES <= REGION, "room for the stacks of a block");

struct FaultRecord {
    int code;                  // 0: none
    int write;                 // 1 write, 0 read, -1 unknown
    cuplug_u64 address, nbytes, block_index;
    Dim block, thread;
    cuplug_u64 places[2];      // offsets into the module's code, which the text calls [0] and [1]
    char text[1024];
};

enum Ended : cuplug_u32 { TIMED_OUT = 1, INTERRUPTED = 2 };

constexpr cuplug_u32 MAX_STANDING = 16, CANDIDATES = 6;

// Where a worker was when a kernel was ended.
struct Standing {
    Dim block, thread;
    cuplug_u32 line;              // of the barrier or warp function that the thread came to last, or 0
    cuplug_u64 code[CANDIDATES];  // the address of the instruction, or what on the stack may be one to return to
};

struct Launch {
    const Kernel* kernel;
    const char* parameters;
    Dim grid, block;
    cuplug_u32 shared_nbytes, workers;
    cuplug_u32 shared_limit;       // bytes of shared memory that a block may use in all
    cuplug_u32 checked;            // whether the kernel was compiled with checks
    cuplug_u32 races;              // and whether it tells of every access; 2: by the simple form of races.h
    cuplug_u32 cooperative;        // whether blocks may wait for one another
    cuplug_u32 constant_count;     // ranges of __constant__ memory
    const cuplug_u64* constants;   // their addresses and sizes, in turn
    // Set by the engine:
    cuplug_u64 block_count, chunk, number;
    volatile cuplug_u64 next_block;
    volatile cuplug_u64 stop_at;   // no block from this one on is run
    FaultRecord fault;
    cuplug_u32 static_shared;      // bytes of static shared memory that a block used, at most
    volatile cuplug_u32 ended;     // why the kernel was ended, or 0
    cuplug_u64 timeout_ns;         // how long it may run, or 0
    cuplug_u64 interrupts_seen;    // what cuplug_interrupts said before the launch
    cuplug_u64 code_begin, code_end;  // the module
    cuplug_u32 standing_count;
    Standing standing[MAX_STANDING];
};

struct Printed {
    cuplug_u64 block, order, offset, nbytes;
};

// GONE: came to the end of the kernel. LEFT: returned before, and so has come to every barrier that follows.
enum Status : unsigned char { UNBORN, RUNNABLE, AT_BARRIER, AT_TILE, EXCHANGING, GONE, LEFT };

struct State : Worker {
    Api functions;
    Launch* launch;
    const Kernel* kernel;
    cuplug_u64 block_index;
    void *native, *main;       // where to go on, outside and inside the region
    sigjmp_buf escape;
    cuplug_u64 fault_code;     // the instruction of a fault that is about to be recorded, or 0
    pthread_t native_thread;
    volatile sig_atomic_t in_kernel, in_engine;  // whether blocks are run, and whether they call what must not be left
    cuplug_u64 shared_used;
    cuplug_u32 static_shared;
    cuplug_u32 stacks_used, stacks_ready;
    // The threads of the block
    cuplug_u32 warps, arrived, gone, left;  // how many are at a barrier, have come to the end, have returned before
    int reduced, barrier_result;
    cuplug_u32 diverged;                  // whether lanes of a warp have come to different barriers: none opens any more
    int meets_grid;                       // the line of the barrier, if it is one of the grid, else 0
    int warp_line[MAX_WARPS];             // where the lanes of a warp that are at a barrier wait
    cuplug_u32 at_barrier[MAX_WARPS];     // how many do
    // How many threads wait for those of a tile: by its size, 64 << n, and the warp that it begins with.
    cuplug_u32 at_tile[TILE_SIZES][MAX_WARPS];
    cuplug_u32 ready[MAX_WARPS], live[MAX_WARPS], left_lanes[MAX_WARPS], exchanging[MAX_WARPS];
    void* stack[MAX_THREADS];
    Exchange* exchange[MAX_THREADS];
    int line[MAX_THREADS];
    Status status[MAX_THREADS];
    // What the block printed
    char* text;
    cuplug_u64 text_nbytes, text_capacity;
    Printed* printed;
    cuplug_u64 printed_count, printed_capacity;
    char signal_stack[32 << 10];

    char* base() { return (char*)this; }
};
static_assert(sizeof(State) <= PARAMETERS, "the worker's state must fit before the parameters");

static __thread State* current_state __attribute__((tls_model("initial-exec"))) = nullptr;

// While one lives, the kernel is not ended: a lock is held, or memory of the process changes hands.
struct InEngine {
    State* state;
    explicit InEngine(State* state) : state(state) { state->in_engine = state->in_engine + 1; }
    ~InEngine() { state->in_engine = state->in_engine - 1; }
};

static State* make_worker(const Api& api) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char* space = (char*)mmap(nullptr, 2 * REGION, PROT_NONE, flags, -1, 0);
    if (space == MAP_FAILED) return nullptr;
    char* base = (char*)(((cuplug_u64)space + REGION - 1) & ~(REGION - 1));
    if (base > space) munmap(space, (cuplug_u64)(base - space));
    munmap(base + REGION, (cuplug_u64)(space + 2 * REGION - (base + REGION)));
    mprotect(base, MAIN_STACK, PROT_READ | PROT_WRITE);
    mprotect(base + MAIN_STACK + GUARD, MAIN_STACK_NBYTES - GUARD, PROT_READ | PROT_WRITE);
    madvise(base, REGION, MADV_NOHUGEPAGE);
    shadow::change({(cuplug_u64)base, REGION}, true);
    State* state = (State*)base;
    state->functions = api;
    state->api = &state->functions;
    state->slots = (SharedSlot*)(base + SLOTS);
    state->parameters = base + PARAMETERS;
    return state;
}

static char* main_stack_top(State* state) { return state->base() + MAIN_STACK + MAIN_STACK_NBYTES - 64; }

static char* stack_top(State* state, cuplug_u32 number) {
    char* start = state->base() + STACKS + number * STACK_NBYTES;
    if (number >= state->stacks_ready) {
        mprotect(start + GUARD, STACK_NBYTES - GUARD, PROT_READ | PROT_WRITE);
        state->stacks_ready = number + 1;
    }
    return start + STACK_NBYTES - 64 - (number % 11) * 320;
}

// Makes the stacks of a block usable at once, without guards between them, where there are so many blocks that the
// process could not have as many mappings.
static void prepare_stacks(State* state, cuplug_u32 count) {
    if (state->stacks_ready >= count) return;
    mprotect(state->base() + STACKS, count * STACK_NBYTES, PROT_READ | PROT_WRITE);
    state->stacks_ready = count;
}

// What a stack overflow or a wild access in the region's guard pages looks like.
static bool in_guard(State* state, cuplug_u64 address) {
    cuplug_u64 offset = address - (cuplug_u64)state->base();
    if (offset >= MAIN_STACK && offset < MAIN_STACK + GUARD) return true;
    return offset >= STACKS && offset < STACKS + MAX_THREADS * STACK_NBYTES && (offset - STACKS) % STACK_NBYTES < GUARD;
}
