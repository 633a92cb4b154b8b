// What kernels under check="races" tell of most of their accesses, without calling the engine.
#pragma once

#include "cells.h"

namespace __cuplug {

// What most kernels do to most memory: sixteen cells of four bytes of global memory that were touched at one time of the
// launch, each written by nobody but the one thread that also read it, or read by any. `time` tells which of three states
// they are in, see `launch_time` in races.h. Before it: nobody has touched them in this launch. It, when no block runs:
// the cells say what was done. Later: these fields do, and the cells are not looked at until something comes that does
// not fit, which first moves what is known into them.
struct Strip {
    cuplug_u32 time;
    unsigned short reads, writes;    // a bit for each cell
    unsigned short others;           // and for those that a second thread has read
    unsigned short threads[16];      // who read first, or wrote
    unsigned short other_threads[16];  // who read last, of the others
    cuplug_u32 read_codes[16], write_codes[16], other_codes[16];  // the lower halves of return addresses
};
constexpr cuplug_u64 STRIP = 16 * CELL, PAGE = 4096;

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
    const auto& recent = told.recent[Told::place(address / PAGE)];
    if (recent.page != address / PAGE) return false;
    Strip& strip = recent.strips[address % PAGE / STRIP];
    if (strip.time != told.time || (!writes && looks_unwritten<nbytes>(address))) return false;
    const cuplug_u32 first = address % STRIP / CELL, bits = ((1u << nbytes / CELL) - 1) << first;
    const cuplug_u32 owned = (strip.reads | strip.writes) & bits;
    Threads& threads = *(Threads*)&strip.threads[first];
    constexpr Threads each = (Threads)0x0001000100010001ull;
    const Threads mine = (Threads)(worker->thread * each);
    if (!owned) threads = mine;
    else if (owned != bits || threads != (Threads)(strip.threads[first] * each)) return false;
    const bool is_other = threads != mine;
    if (is_other && (writes || strip.writes & bits)) return false;
    if (is_other) *(Threads*)&strip.other_threads[first] = mine;
    if (writes && strip.others & bits) return false;
    unsigned short& done = writes ? strip.writes : is_other ? strip.others : strip.reads;
    cuplug_u32* codes = (writes ? strip.write_codes : is_other ? strip.other_codes : strip.read_codes) + first;
    done = (unsigned short)(done | bits);
    codes[0] = codes[(nbytes > 4)] = codes[(nbytes > 8) * 2] = codes[(nbytes > 8) * 3] = (cuplug_u32)code;
    return true;
}

}  // namespace __cuplug
