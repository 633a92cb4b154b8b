// What kernels under check="races" tell of most of their accesses, without calling the engine.
#pragma once

#include "cells.h"

namespace __cuplug {

// What most kernels do to most memory: eight cells of four bytes of global memory that were touched at one time of the
// launch, each written by nobody but the one thread that also read it, or read by any. `time` tells which of three states
// they are in, see `launch_time` in race_times.h. Before it: nobody has touched them in this launch. It, when no block runs:
// the cells say what was done. Later: these fields do, and the cells are not looked at until something comes that does
// not fit, which first moves what is known into them. Two of them fill one line of the cache of a processor.
struct alignas(32) Strip {
    cuplug_u32 time;
    unsigned char done[2];           // a bit for each cell that was read, and that was written, see `Done`
    unsigned char others;            // and for those that a second thread has read
    unsigned char mixed;             // a bit for each of `done`: whether its cells have codes of their own, in `Details`
    cuplug_u32 codes[2];             // else the code of all: the lower half of a return address
    unsigned short threads[8];       // who read first, or wrote
};
enum Done { READ, WRITTEN };

// What is seldom wanted of a strip.
struct Details {
    unsigned short other_threads[8];   // who read last, of the others
    cuplug_u32 other_codes[8], codes[2][8];
};
constexpr cuplug_u64 STRIP = 8 * CELL;

// What is known of a stretch of global memory. The strips lie together, so that few pages of the processor's hold those of
// much memory; all of it is aligned to ALIGNMENT, so that each strip leads to what else is known of its cells.
struct Stretch {
    static constexpr cuplug_u64 NBYTES = 2 << 20, COUNT = NBYTES / STRIP, ALIGNMENT = COUNT * sizeof(Strip);

    Strip strips[COUNT];
    Details details[COUNT];
    Cell cells[COUNT * 8];
    cuplug_u64 number;  // the stretch's address by its size
    Stretch* next;

    CUPLUG_AT_ONCE static Stretch* of(const Strip* strip) { return (Stretch*)((cuplug_u64)strip & ~(ALIGNMENT - 1)); }
    CUPLUG_AT_ONCE static Details* details_of(const Strip* strip) { return &of(strip)->details[strip - of(strip)->strips]; }
    CUPLUG_AT_ONCE static Cell* cells_of(const Strip* strip) { return &of(strip)->cells[(strip - of(strip)->strips) * 8]; }
};

// Notes that cells were touched by an instruction.
template <int count> CUPLUG_AT_ONCE inline void note(Strip& strip, Done what, cuplug_u32 first, cuplug_u32 bits, cuplug_u32 code) {
    if (!strip.done[what]) strip.codes[what] = code;
    if (__builtin_expect(strip.codes[what] != code || strip.mixed >> what & 1, 0)) {
        cuplug_u32* codes = Stretch::details_of(&strip)->codes[what];
        if (!(strip.mixed >> what & 1))
            for (int i = 0; i < 8; ++i) codes[i] = strip.codes[what];
        strip.mixed = (unsigned char)(strip.mixed | 1u << what);
        for (int i = 0; i < count; ++i) codes[first + i] = code;
    }
    strip.done[what] = (unsigned char)(strip.done[what] | bits);
}

// Whether a plain access is one of those that say nothing: of a thread's own memory, of shared memory where cells.h can
// tell, or of global memory that a strip tells of, which then does (`begin_strip` in engine/races.h lets it).
template <int nbytes, bool writes, class Threads> CUPLUG_AT_ONCE inline bool is_quiet(cuplug_u64 address, cuplug_u64 code) {
    Worker* worker = self();
    const cuplug_u64 offset = address - (cuplug_u64)worker;
    if (address & (nbytes - 1)) return offset < USED;
    if (offset < REGION) {
        if (offset < USED) return true;
        const unsigned char* allowed = (const unsigned char*)((address >> 3) + SHADOW);
        if (allowed[0] || allowed[nbytes / 16]) return false;
        if (offset >= LOCAL) return writes || !looks_unwritten<nbytes>(address);
        return offset - OWN < SHARED_NBYTES && is_quiet_in_shared<nbytes, writes>(worker, address, offset, (cuplug_u32)code);
    }
    const Told& told = *worker->told;
    const auto& recent = told.recent[Told::place(address / Stretch::NBYTES)];
    if (recent.number != address / Stretch::NBYTES) return false;
    Strip& strip = recent.strips[address % Stretch::NBYTES / STRIP];
    if (strip.time != told.time || (!writes && looks_unwritten<nbytes>(address))) return false;
    const cuplug_u32 first = address % STRIP / CELL, bits = ((1u << nbytes / CELL) - 1) << first;
    const cuplug_u32 owned = (strip.done[READ] | strip.done[WRITTEN]) & bits;
    Threads& threads = *(Threads*)&strip.threads[first];
    constexpr Threads each = (Threads)0x0001000100010001ull;
    const Threads mine = (Threads)(worker->thread * each);
    if (!owned) threads = mine;
    else if (owned != bits || threads != (Threads)(strip.threads[first] * each)) return false;
    const bool is_other = threads != mine;
    if (is_other && (writes || strip.done[WRITTEN] & bits)) return false;
    if (writes && strip.others & bits) return false;
    if (!is_other) {
        note<nbytes / CELL>(strip, writes ? WRITTEN : READ, first, bits, (cuplug_u32)code);
    } else {
        Details* details = Stretch::details_of(&strip);
        *(Threads*)&details->other_threads[first] = mine;
        for (cuplug_u32 i = 0; i < nbytes / CELL; ++i) details->other_codes[first + i] = (cuplug_u32)code;
        strip.others = (unsigned char)(strip.others | bits);
    }
    return true;
}

}  // namespace __cuplug
