// Blocks of a cooperative launch, which wait for one another: each has a worker and a thread of the process of its own.
//
// Under check="races" they take turns, from one meeting of the grid to the next and in their order, so that all is the
// same in every run.
#pragma once

#include "races.h"

namespace grid {

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static cuplug_u32 blocks = 0, waiting = 0, gone = 0, turn = 0;
static cuplug_u64 meetings = 0;

static void begin(const Launch* launch) {
    blocks = (cuplug_u32)launch->block_count;
    waiting = gone = turn = 0;
}

static bool is_over(const Launch* launch) { return launch->fault.code || launch->ended; }

// Lets whoever waits look again whether the launch is over.
static void wake() {
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

__attribute__((noreturn)) static void end(State* state, int line) {
    Launch* launch = state->launch;
    if (launch->ended) {
        cuplug_u32 place = __atomic_fetch_add(&launch->standing_count, 1, __ATOMIC_RELAXED);
        if (place < MAX_STANDING) {
            memset(&launch->standing[place], 0, sizeof launch->standing[place]);
            launch->standing[place].block = state->blockIdx;
            launch->standing[place].thread = state->threadIdx;
            launch->standing[place].line = (cuplug_u32)line;
        }
        record_end(state);
    }
    escape(state);
}

// With the lock held, waits for the block's turn.
static void await_turn(State* state) {
    while (turn != state->block_index && !is_over(state->launch)) pthread_cond_wait(&changed, &lock);
}

static void begin_block(State* state) {
    if (!state->launch->races) return;
    pthread_mutex_lock(&lock);
    await_turn(state);
    pthread_mutex_unlock(&lock);
    if (is_over(state->launch)) escape(state);  // it has not begun
}

// A block has ended: nobody can wait for it any more.
static void end_block(State* state) {
    pthread_mutex_lock(&lock);
    ++gone;
    turn = (cuplug_u32)state->block_index + 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

// Called by one thread of a block, all of whose threads have come.
static void meet(State* state, int line) {
    Launch* launch = state->launch;
    state->in_engine = 1;
    pthread_mutex_lock(&lock);
    const cuplug_u64 before = meetings;
    if (++waiting == blocks) {
        waiting = turn = 0;
        ++meetings;
    } else {
        turn = (cuplug_u32)state->block_index + 1;
    }
    pthread_cond_broadcast(&changed);
    while (meetings == before && !gone && !is_over(launch)) pthread_cond_wait(&changed, &lock);
    const bool met = meetings != before;
    if (met && launch->races) await_turn(state);
    pthread_mutex_unlock(&lock);
    state->in_engine = 0;
    if (is_over(launch)) end(state, line);
    if (met) {
        if (launch->races) races::resume_block(state);
        return;
    }
    record(state, FAULT_LAUNCH_FAILED, 0, 0, -1,
           "divergent grid synchronisation: blocks wait in {line %d}, and another one has returned without it", line);
    escape(state);
}

}  // namespace grid
