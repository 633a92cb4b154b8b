// Arrays of functions: the compiler puts bytes between them that nobody may touch (AddressSanitizer's red zones; gcc's
// alone, of kernels that are checked by default), and begins each frame that has some with a description of it.
//
// Rule: an access that leaves such an array into the bytes beside it is a fault, which names the array. Stacks are all
// allowed again when a block is abandoned, since the frames that are left do not do it.
#pragma once

#include "worker.h"

namespace local_arrays {

constexpr cuplug_u64 FRAME = 0x41b58ab3, STEP = 8, FARTHEST = 256 << 10;

// The variable of a frame that is nearest to an address, from the frame's description: how many there are, then of each
// its offset, its size, the length of its name, and the name, with a line behind a colon.
static bool describe_nearest(const char* about, cuplug_u64 frame, cuplug_u64 address, char* text, size_t room) {
    cuplug_u64 least = ~0ull;
    char* rest;
    const unsigned long count = strtoul(about, &rest, 10);
    for (unsigned long i = 0; i < count; ++i) {
        const cuplug_u64 start = frame + strtoul(rest, &rest, 10), nbytes = strtoul(rest, &rest, 10);
        const unsigned long length = strtoul(rest, &rest, 10);
        const char* name = rest + 1;
        rest += 1 + length;
        const cuplug_u64 away = address < start ? start - address : address < start + nbytes ? 0 : address - start - nbytes;
        if (away >= least) continue;
        least = away;
        const char* side = address < start ? "before the beginning" : "behind the end";
        snprintf(text, room, "%llu bytes %s of %.*s (%llu bytes)", address < start ? start - address : address - start - nbytes, side,
                 (int)strcspn(name, ": "), name, nbytes);
    }
    return least != ~0ull;
}

// What of the running kernel's stack an address is beside, if that can be told.
static bool describe(State* state, cuplug_u64 address, char* text, size_t room) {
    const cuplug_u64 base = (cuplug_u64)state->base(), offset = address - base;
    cuplug_u64 lowest = base + MAIN_STACK + GUARD;
    if (offset >= STACKS) lowest = base + STACKS + (offset - STACKS) / STACK_NBYTES * STACK_NBYTES + GUARD;
    if (address > lowest + FARTHEST) lowest = address - FARTHEST;
    for (cuplug_u64 at = address & ~(STEP - 1); at >= lowest; at -= STEP) {
        const cuplug_u64* words = (const cuplug_u64*)at;
        if (words[0] != FRAME || words[1] < state->launch->code_begin || words[1] >= state->launch->code_end) continue;
        return describe_nearest((const char*)words[1], at, address, text, room);
    }
    return false;
}

// An earlier kernel may have been taken from its stacks in its middle. Pages that nobody touched cost nothing here.
static void allow_stacks(State* state) {
    if (shadow::broken) return;
    const cuplug_u64 start = shadow::of((cuplug_u64)state->base() + MAIN_STACK);
    madvise((void*)start, (STACKS - MAIN_STACK + state->stacks_ready * STACK_NBYTES) / 8, MADV_DONTNEED);
}

}  // namespace local_arrays
