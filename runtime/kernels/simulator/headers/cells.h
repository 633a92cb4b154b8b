// What check="races" remembers of accesses, cell by cell, and the common access of shared memory: told to its cells within
// the module, without calling the engine.
//
// A cell is four bytes of memory. It holds the last write and up to two reads, each with its time, thread, bytes, kind and
// place in the code. What holds of them, and what is left to the engine (races.h) because of it:
//
// - Times only grow, and whatever orders threads makes a new one. A remembered access from before `Told::barrier_time` is
//   behind a barrier of the running block, or of an earlier block, and shared memory is a block's own: it conflicts with
//   nobody. So does one of the running thread itself. Nothing else is decided here.
// - A write conflicts with no remembered access if all three are past; it takes the place of the last write, whose bytes
//   it covers. A read conflicts with none if the write is past.
// - A read takes the first place if the read there is past, or is ordered before it; else the second. One that came later
//   than `Told::last_meeting` can be ordered by nothing but barriers, so the second place is right. Where something else
//   may order (chains of fences and atomics, warps in lockstep), `last_meeting` is later than every access.
// - What is not a whole, aligned cell, lies beside what may be touched, or looks as if nobody wrote it, is the engine's.
//   So is every access while the engine wants to hear of the next one: then `Told::time` is all bits.
#pragma once

#include "abi.h"

namespace __cuplug {

constexpr cuplug_u64 CELL = 4;
constexpr cuplug_u64 SHARED_NBYTES = 256 << 10;
constexpr unsigned char POISON = 0xCB;  // what memory begins as
constexpr cuplug_u64 SHADOW = 0x18000;  // as engine/shadow.h says

// Small, since there are three for each four bytes of memory: when, whose and how.
struct Access {
    cuplug_u32 time;  // 0: none. It tells the block, too
    cuplug_u32 thread : 10, bytes : 4, kind : 5, place : 13;  // a bit for each byte of the cell; see `Touch`; see `Codes`
};

struct Cell {
    Access write, reads[2];
};

// The number by which an access knows an instruction, where it has been seen before.
struct Coded {
    cuplug_u32 code, number;  // an offset into the module; 0: none

    __attribute__((always_inline)) static cuplug_u32 place(cuplug_u32 code) { return code * 0x9e3779b1u >> 18; }
};

struct Strip;

// What the code of modules looks at before it tells the engine of an access.
struct Told {
    cuplug_u32 time;          // that counts up with whatever orders threads; all bits: tell of every access
    cuplug_u32 barrier_time;  // when the block began, or its threads last met at a barrier
    cuplug_u32 last_meeting;  // when anything last ordered some of the block's threads; all bits: that cannot be said
    cuplug_u32 code_begin;    // where the module lies, and one: what return addresses count from. Its lower half
    Cell* of_shared;          // shared memory has a table of its own
    struct {
        cuplug_u64 number;    // of a stretch of global memory, see strips.h
        Strip* strips;
    } recent[256];
    Coded codes[1 << 14];
    __attribute__((always_inline)) static cuplug_u32 place(cuplug_u64 number) { return (cuplug_u32)number * 0x9e3779b1u >> 24; }
};

#define CUPLUG_AT_ONCE __attribute__((no_sanitize("thread"), no_sanitize("undefined"), always_inline))

// Made as one number: fields that are stored one by one, and then copied together, make the processor wait.
CUPLUG_AT_ONCE inline Access access_of(cuplug_u32 time, cuplug_u32 thread, cuplug_u32 bytes, cuplug_u32 kind, cuplug_u32 place) {
    const cuplug_u32 words[2] = {time, thread | bytes << 10 | kind << 14 | place << 19};
    Access access;
    static_assert(sizeof access == sizeof words, "");
    __builtin_memcpy(&access, words, sizeof access);
    return access;
}

template <int nbytes> CUPLUG_AT_ONCE inline bool looks_unwritten(cuplug_u64 address) {
    const cuplug_u32* words = (const cuplug_u32*)address;
    constexpr cuplug_u32 poison = POISON * 0x01010101u;
    return words[0] == poison || words[(nbytes > 4)] == poison || words[(nbytes > 8) * 2] == poison || words[(nbytes > 8) * 3] == poison;
}

// Whether a plain, aligned access of shared memory that may be touched is in conflict with nobody, and is remembered.
template <int nbytes, bool writes>
CUPLUG_AT_ONCE inline bool is_quiet_in_shared(const Worker* worker, cuplug_u64 address, cuplug_u64 offset, cuplug_u32 code) {
    const Told& told = *worker->told;
    if (told.time == ~0u || (!writes && looks_unwritten<nbytes>(address))) return false;
    const cuplug_u32 from_begin = code - told.code_begin, thread = worker->thread, barrier_time = told.barrier_time;
    const Coded known = told.codes[Coded::place(from_begin)];
    if (known.code != from_begin || !known.number) return false;
    const Access mine = access_of(told.time, thread, 15, writes ? TOUCH_WRITE : TOUCH_READ, known.number);
    const auto is_past = [&](const Access& access) CUPLUG_AT_ONCE { return access.time < barrier_time || access.thread == thread; };
    Cell* const cells = &told.of_shared[(offset - OWN) / CELL];
    constexpr int count = nbytes / CELL;
    for (int i = 0; i < count; ++i) {
        const Cell& cell = cells[i];
        if (!is_past(cell.write)) return false;
        if (writes ? !is_past(cell.reads[0]) || !is_past(cell.reads[1])
                   : !is_past(cell.reads[0]) && cell.reads[0].time < told.last_meeting)
            return false;
    }
    for (int i = 0; i < count; ++i) {
        Cell& cell = cells[i];
        if (writes) cell.write = mine;
        else cell.reads[!is_past(cell.reads[0])] = mine;
    }
    return true;
}

}  // namespace __cuplug
