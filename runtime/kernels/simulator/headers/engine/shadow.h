// Which bytes kernels may touch: one shadow byte says it for eight bytes of memory, as in AddressSanitizer, whose
// instrumentation reads it. 0: all eight; 1 to 7: that many from the first on; FORBIDDEN: none. Shadow that was never
// mapped forbids as well: reading it is a fault, which faults.h turns into the same report.
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace shadow {

constexpr cuplug_u64 OFFSET = 0x18000;  // as host_compiler.py says; no power of two, which clang would OR
constexpr cuplug_u64 CHUNK = 64 << 10;
constexpr unsigned char FORBIDDEN = 0xff;
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct Range {
    cuplug_u64 address, nbytes;
};

inline cuplug_u64 of(cuplug_u64 address) { return (address >> 3) + OFFSET; }
inline cuplug_u64 told_by(cuplug_u64 at) { return (at - OFFSET) << 3; }  // the address that a shadow byte tells of

// How many ranges lie in each chunk that no single range fills. Open addressing; a chunk of 0 is an empty place.
struct Edges {
    struct Place {
        cuplug_u64 chunk, count;
    };
    Place* places = nullptr;
    cuplug_u64 capacity = 0, used = 0;

    // Null if there is no memory for one more.
    cuplug_u64* find(cuplug_u64 chunk) {
        if (used * 2 >= capacity && !grow() && used + 1 >= capacity) return nullptr;
        for (cuplug_u64 i = hash(chunk);; ++i) {
            Place& place = places[i & (capacity - 1)];
            if (place.chunk == chunk) return &place.count;
            if (!place.chunk) {
                place.chunk = chunk;
                ++used;
                return &place.count;
            }
        }
    }
    static cuplug_u64 hash(cuplug_u64 chunk) { return (chunk / CHUNK) * 0x9e3779b97f4a7c15ull >> 20; }
    bool grow() {
        Edges bigger;
        bigger.capacity = capacity ? capacity * 2 : 1024;
        bigger.places = (Place*)calloc(bigger.capacity, sizeof(Place));
        if (!bigger.places) return false;
        for (cuplug_u64 i = 0; i < capacity; ++i)
            if (places[i].count) *bigger.find(places[i].chunk) = places[i].count;
        free(places);
        *this = bigger;
        return true;
    }
};

static Edges edges;
static bool broken = false;  // for good: then no checked kernel runs any more

static bool map(cuplug_u64 start, cuplug_u64 end) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* found = mmap((void*)start, end - start, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (found == (void*)start) return true;
    if (found != MAP_FAILED) munmap(found, end - start);
    broken = true;
    return false;
}

static void write(Range range, bool allowed) {
    cuplug_u64 first = of(range.address), last = of(range.address + range.nbytes);
    memset((void*)first, allowed ? 0 : FORBIDDEN, last - first);
    if (unsigned rest = (range.address + range.nbytes) & 7) *(unsigned char*)last = allowed ? rest : FORBIDDEN;
}

static void edge(cuplug_u64 chunk, Range range, bool allow) {
    cuplug_u64* count = edges.find(chunk);
    if (!count) {
        broken = true;
        return;
    }
    if (allow) {
        if (!*count) {
            if (!map(chunk, chunk + CHUNK)) return;
            memset((void*)chunk, FORBIDDEN, CHUNK);
        }
        ++*count;
        write(range, true);
    } else if (--*count == 0) {
        munmap((void*)chunk, CHUNK);
    } else {
        write(range, false);
    }
}

// Allows or forbids a range. What is forbidden must be what was allowed. Once something else was found where the shadow
// should lie, nothing is written or unmapped any more, for it might be somebody else's.
static void change(Range range, bool allow) {
    if (!range.nbytes || broken) return;
    cuplug_u64 end = range.address + range.nbytes;
    cuplug_u64 first = of(range.address) & ~(CHUNK - 1), last = (of(end + 7) - 1) & ~(CHUNK - 1);
    cuplug_u64 inner = of(range.address) == first ? first : first + CHUNK;
    cuplug_u64 outer = of(end) == last + CHUNK && !(end & 7) ? last + CHUNK : last;
    if (inner < outer) {
        if (allow) map(inner, outer);
        else munmap((void*)inner, outer - inner);
    }
    // The parts before and after the chunks that the range fills alone.
    if (first < inner) {
        cuplug_u64 stop = told_by(first + CHUNK) < end ? told_by(first + CHUNK) : end;
        edge(first, {range.address, stop - range.address}, allow);
    }
    if (last >= outer && last >= inner && (last != first || first >= inner)) {
        cuplug_u64 start = told_by(last) > range.address ? told_by(last) : range.address;
        edge(last, {start, end - start}, allow);
    }
}

// Shadow that a check read and that was not mapped: map it for the time of the launch, so that the check can go on.
static cuplug_u64 forbidden[64];
static volatile cuplug_u32 forbidden_count = 0;

static bool forbid(cuplug_u64 at) {
    cuplug_u64 page = at & ~4095ull;
    cuplug_u32 place = __atomic_fetch_add(&forbidden_count, 1, __ATOMIC_RELAXED);
    if (place >= 64) return false;
    forbidden[place] = 0;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* found = mmap((void*)page, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
    forbidden[place] = found == (void*)page ? page : 0;
    if (found == (void*)page) memset(found, FORBIDDEN, 4096);
    else if (found != MAP_FAILED) munmap(found, 4096);
    return found == (void*)page || errno == EEXIST;  // another worker was faster
}

static void unmap_forbidden() {
    for (cuplug_u32 i = 0; i < forbidden_count && i < 64; ++i)
        if (forbidden[i]) munmap((void*)forbidden[i], 4096);
    forbidden_count = 0;
}

static Range* current = nullptr;
static cuplug_u64 current_count = 0;

// Makes exactly these ranges the device memory that kernels may touch. In order of address, and apart. False if there is no
// memory to note them, or no room for the shadow: then nothing may be checked by it.
static bool apply(const Range* ranges, cuplug_u64 count) {
    Range* noted = (Range*)malloc((count + 1) * sizeof(Range));
    if (!noted) return false;
    memcpy(noted, ranges, count * sizeof(Range));
    for (int pass = 0; pass < 2; ++pass) {  // first forbid, then allow
        cuplug_u64 i = 0, j = 0;
        while (i < current_count || j < count) {
            bool have_old = i < current_count, have_new = j < count;
            if (have_old && have_new && current[i].address == ranges[j].address && current[i].nbytes == ranges[j].nbytes) {
                ++i, ++j;
            } else if (have_old && (!have_new || current[i].address <= ranges[j].address)) {
                if (pass == 0) change(current[i], false);
                ++i;
            } else {
                if (pass == 1) change(ranges[j], true);
                ++j;
            }
        }
    }
    free(current);
    current = noted;
    current_count = count;
    return !broken;
}

}  // namespace shadow
