// What orders accesses: barriers, warp functions, and chains of releases and acquires.
#pragma once

#include <initializer_list>

#include "race_reports.h"

namespace races {

static Place* find_place(cuplug_u64 address, bool make) {
    Place*& head = places[(address >> 2) * 0x9e3779b1u >> 7 & 1023];
    for (Place* place = head; place; place = place->next)
        if (place->address == address) return place;
    if (!make) return nullptr;
    Place* place = enlarged((Place*)nullptr, 1, FOR_RACES);
    memset((void*)place, 0, sizeof *place);
    place->address = address;
    place->next = head;
    ++place_count;
    return head = place;
}

// Whether an access was released at a place before a time, or at one that was acquired before that.
static bool released(Place* place, cuplug_u32 until, const Access& access) {
    if (place->visited == visit && place->visited_until >= until) return false;
    place->visited = visit;
    place->visited_until = until;
    cuplug_u32 low = 0, high = place->count;
    const cuplug_u32 its = block_of(access);
    while (low < high) {
        cuplug_u32 middle = (low + high) / 2;
        if (place->releases[middle].block < its) low = middle + 1;
        else high = middle;
    }
    for (; low < place->count && place->releases[low].block == its; ++low) {
        const Release& it = place->releases[low];
        if (it.added > until) continue;
        if (access.time < it.block_time) return true;
        if (access.time < it.thread_time && access.thread == it.thread) return true;
        if (access.time < it.warp_time && access.thread / 32 == it.thread / 32) return true;
    }
    for (cuplug_u32 i = 0; i < place->links.count; ++i) {
        const View& link = place->links.items[i];
        if (released(link.place, link.until < until ? link.until : until, access)) return true;
    }
    return false;
}

static bool in_views(const Views& seen, const Access& access) {
    for (cuplug_u32 i = 0; i < seen.count; ++i)
        if (released(seen.items[i].place, seen.items[i].until, access)) return true;
    return false;
}

static bool ordered(cuplug_u32 thread, const Access& access) {
    if (access.time < grid_time) return true;
    if (access.time >= block_time) {  // of the same block
        if (in_lockstep && access.thread / 32 == thread / 32) return true;
        if (access.thread == thread || access.time < told.barrier_time) return true;
        cuplug_u32 warp = thread / 32;
        if (access.thread / 32 == warp &&
            (access.time < warp_time[warp] || access.time < known[thread][access.thread % 32]))
            return true;
    }
    if (!any_views) return false;
    ++visit;
    return in_views(views[thread], access) || in_views(of_block, access);
}

static void settle(State* state) {
    if (!pending.waits) return;
    pending.waits = false;
    show_time();
    if (memcmp((void*)pending.address, pending.before, pending.nbytes))
        report_race(state, pending.address, pending.mine, pending.other);
}

static void settle_unwritten(State* state) {
    if (!unwritten.waits) return;
    blame(state, unwritten.thread);
    report(state, unwritten.address, unwritten.code, unwritten.what);
}

static void note_unwritten(cuplug_u64 address, cuplug_u32 code, cuplug_u32 thread, const char* what) {
    if (!unwritten.waits) unwritten = {true, address, code, thread, what};
}

static void at_barrier(State* state) {
    settle(state);
    tell_held_race(state);
    settle_unwritten(state);
    told.barrier_time = tick();
    show_meeting();
    if (!any_views) return;
    for (cuplug_u32 thread = 0; thread < state->thread_count; ++thread) {
        of_block.add_all(views[thread]);
        views[thread].count = 0;
    }
}

// The same, where the kernel's own text is loops from barrier to barrier.
static void pass_barrier() { at_barrier((State*)self()); }

// Behind a warp function, its lanes know what the others did and knew.
static void at_exchange(State* state, cuplug_u32 warp, cuplug_u32 group) {
    settle(state);
    tick();
    show_meeting();
    if (group == state->live[warp]) {
        warp_time[warp] = now;
    } else {
        cuplug_u32 joined[32];
        memset(joined, 0, sizeof joined);
        for (cuplug_u32 rest = group; rest; rest &= rest - 1) {
            const cuplug_u32* its = known[warp * 32 + (cuplug_u32)__builtin_ctz(rest)];
            for (int lane = 0; lane < 32; ++lane) joined[lane] = its[lane] > joined[lane] ? its[lane] : joined[lane];
        }
        for (cuplug_u32 rest = group; rest; rest &= rest - 1) joined[__builtin_ctz(rest)] = now;
        for (cuplug_u32 rest = group; rest; rest &= rest - 1)
            memcpy(known[warp * 32 + (cuplug_u32)__builtin_ctz(rest)], joined, sizeof joined);
    }
    if (!any_views) return;
    Views& first = views[warp * 32 + (cuplug_u32)__builtin_ctz(group)];
    for (cuplug_u32 rest = group; rest; rest &= rest - 1) first.add_all(views[warp * 32 + (cuplug_u32)__builtin_ctz(rest)]);
    for (cuplug_u32 rest = group; rest; rest &= rest - 1) {
        Views& its = views[warp * 32 + (cuplug_u32)__builtin_ctz(rest)];
        if (&its != &first) its.add_all(first);
    }
}

static void release_at(cuplug_u32 thread, cuplug_u64 address, bool by_itself) {
    if (!by_itself && fence_time[thread] < block_time) return;  // no fence before it
    Place* place = find_place(address, true);
    if (place->count == place->capacity) {
        place->releases = enlarged(place->releases, place->capacity * 2 + 4, FOR_RACES);
        place->capacity = place->capacity * 2 + 4;
    }
    tick();
    const Release fresh = {block, thread, by_itself ? now : fence_time[thread], warp_time[thread / 32], told.barrier_time, now};
    Release* last = place->count ? &place->releases[place->count - 1] : nullptr;
    if (last && last->block == block && last->thread == thread) *last = {fresh.block, fresh.thread, fresh.thread_time,
        fresh.warp_time, fresh.block_time, last->added};
    else place->releases[place->count++] = fresh;
    for (const Views* its : {&views[thread], &of_block})
        for (cuplug_u32 i = 0; i < its->count; ++i)
            if (its->items[i].place != place) place->links.add(its->items[i].place, its->items[i].until);
}

static void acquire_at(cuplug_u32 thread, cuplug_u64 address) {
    Place* place = place_count ? find_place(address, false) : nullptr;
    if (!place) return;
    views[thread].add(place, now);
    any_views = true;
    show_meeting();
}

static void fence() {
    State* state = (State*)self();
    settle(state);
    fence_time[state->thread] = tick();
}

static void forget_shortcuts() {
    for (Place*& head : places)
        while (Place* place = head) {
            head = place->next;
            free(place->releases);
            free(place->links.items);
            free(place);
        }
    place_count = 0;
    for (Views& its : views) its.count = 0;
    of_block.count = 0;
    any_views = false;
}

}  // namespace races
