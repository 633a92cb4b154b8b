// What a program calls the shared memory of a block: variables by their names, and elements by their indices.
#pragma once

#include "worker.h"

namespace names {

constexpr cuplug_u64 BESIDE = 4096;  // bytes beyond a variable that are told as beside it

struct Variable {
    const Named* about;  // null: there is none
    cuplug_u64 start;

    cuplug_u64 end() const { return start + about->nbytes; }
};

// Keeps, of variables that are offered, the nearest to an address: rather one that ends before it, since most of what
// reaches beyond counts up.
struct Nearest {
    cuplug_u64 address, least;
    Variable found;

    explicit Nearest(cuplug_u64 address, cuplug_u64 beyond) : address(address), least(beyond + 1), found() {}
    void offer(const Variable& it) {
        const cuplug_u64 away = address < it.start ? 4 * (it.start - address) : address < it.end() ? 0 : address - it.end() + 1;
        if (away < least) least = away, found = it;
    }
};

// The shared variable at an address, or the nearest within so many bytes.
static Variable find_shared(State* state, cuplug_u64 address, cuplug_u64 beyond = 0) {
    Nearest nearest(address, beyond);
    for (cuplug_u32 number = 0; number < MAX_SLOTS; ++number) {
        const SharedSlot& slot = state->slots[number];
        if (slot.block != state->block || !slot.names) continue;
        for (const Named* it = slot.names; it->name; ++it) nearest.offer({it, (cuplug_u64)slot.data + it->offset});
    }
    return nearest.found;
}

// "tile[3][7]", for any address in it or beside it: the first index counts on beyond the end and below zero.
static void describe_element(const Variable& it, cuplug_u64 address, char* text, size_t room) {
    const Named& about = *it.about;
    const long long bytes = (long long)(address - it.start), element = about.element;
    long long index = bytes / element, rest = bytes % element;
    if (rest < 0) --index, rest += element;
    long long indices[4] = {};
    for (cuplug_u32 i = about.rank; i-- > 1;) {
        const long long count = about.extents[i];
        indices[i] = (index % count + count) % count;
        index = (index - indices[i]) / count;
    }
    indices[0] = index;
    size_t used = (size_t)snprintf(text, room, "%s", about.name);
    const cuplug_u32 shown = about.rank || !index ? about.rank : 1;  // beside what is no array it is as beside one of one element
    for (cuplug_u32 i = 0; i < shown && used < room; ++i) used += (size_t)snprintf(text + used, room - used, "[%lld]", indices[i]);
    if (rest && used < room) snprintf(text + used, room - used, " + %lld bytes", rest);
}

// "behind the end of tile (256 bytes): tile[67]"
static void describe_outside(const Variable& it, cuplug_u64 address, char* text, size_t room) {
    char element[160];
    describe_element(it, address, element, sizeof element);
    snprintf(text, room, "%s of %s (%llu bytes): %s", address < it.start ? "before the beginning" : "behind the end", it.about->name,
             it.about->nbytes, element);
}

}  // namespace names
