// Ends kernels that run for too long, and those that an interrupt (Ctrl-C) finds running.
//
// A watchdog thread sleeps until the time that a launch is given is over. It then sends a signal to the workers, again
// and again until they have all left: whoever is in a kernel's code abandons its block as after a fault, whoever is in
// the engine's own goes on until that is left.
#pragma once

#include <semaphore.h>
#include <time.h>

#include "grid.h"

constexpr cuplug_u32 MAX_WORKERS = 64, MAX_BLOCKS = 1024;
constexpr cuplug_u64 PATIENCE_NS = 250000000;  // what a kernel is given to end by itself after an interrupt
constexpr cuplug_u64 AGAIN_NS = 5000000;

static State* workers[MAX_WORKERS];
static State* grid_workers[MAX_BLOCKS];  // of cooperative launches
static State** volatile watched_workers = workers;
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static Launch* volatile watched = nullptr;
static volatile cuplug_u32 watched_count = 0;  // workers of the launch
static volatile cuplug_u64 end_at = 0;         // when to end it; 0: never
static volatile cuplug_u32 end_reason = 0;
static sem_t wake_watchdog;
static bool watching = false;

static cuplug_u64 now_ns(clockid_t clock = CLOCK_MONOTONIC) {
    timespec now;
    clock_gettime(clock, &now);
    return (cuplug_u64)now.tv_sec * 1000000000ull + (cuplug_u64)now.tv_nsec;
}

// Until `at` on the clock that nobody sets, or until somebody wakes the watchdog.
static void sleep_until(cuplug_u64 at) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 30)
    timespec until = {(time_t)(at / 1000000000ull), (long)(at % 1000000000ull)};
    sem_clockwait(&wake_watchdog, CLOCK_MONOTONIC, &until);
#else  // a clock that is set back would delay it: never for longer than this
    cuplug_u64 now = now_ns(), left = at > now ? at - now : 0, real = now_ns(CLOCK_REALTIME);
    real += left < AGAIN_NS ? left : AGAIN_NS;
    timespec until = {(time_t)(real / 1000000000ull), (long)(real % 1000000000ull)};
    sem_timedwait(&wake_watchdog, &until);
#endif
}

static void* watchdog(void*) {
    cuplug_u64 next = 0;
    for (;;) {
        if (next) {
            sleep_until(next);
        } else {
            sem_wait(&wake_watchdog);
        }
        pthread_mutex_lock(&watch_lock);
        next = watched ? end_at : 0;
        if (next && now_ns() >= next) {
            watched->ended = end_reason;
            watched->stop_at = 0;
            for (cuplug_u32 i = 0; i < watched_count; ++i) pthread_kill(watched_workers[i]->native_thread, END);
            grid::wake();
            next = now_ns() + AGAIN_NS;
        }
        pthread_mutex_unlock(&watch_lock);
    }
    return nullptr;
}

static void start_watchdog() {
    if (watching || sem_init(&wake_watchdog, 0, 0)) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 << 10);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t thread;
    watching = !pthread_create(&thread, &attributes, watchdog, nullptr);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

static struct sigaction before_end, before_interrupt;

static void describe_standing(State* state, Standing& standing, ucontext_t* context) {
    cuplug_u64 code = code_of(context), stack = 0;
#if defined(__x86_64__)
    stack = (cuplug_u64)context->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    stack = context->uc_mcontext.sp;
#endif
    const Launch* launch = state->launch;
    memset(&standing, 0, sizeof standing);
    standing.block = state->blockIdx;
    standing.thread = state->threadIdx;
    if (state->kernel->fibres) standing.line = (cuplug_u32)state->line[state->thread];
    cuplug_u32 found = 0;
    if (code >= launch->code_begin && code < launch->code_end) standing.code[found++] = code;
    // In a function that the kernel called: look for where that returns to.
    cuplug_u64 top = (stack | 4095) + 1;
    for (cuplug_u64 at = (stack + 7) & ~7ull; at < top && found < CANDIDATES; at += 8) {
        cuplug_u64 value = *(const cuplug_u64*)at;
        if (value >= launch->code_begin && value < launch->code_end) standing.code[found++] = value - 1;
    }
}

// In a worker: its block is over, wherever it stands.
static void handle_end(int number, siginfo_t* information, void* context) {
    State* state = current_state;
    if (!state || !state->launch->ended) {
        if (before_end.sa_flags & SA_SIGINFO) before_end.sa_sigaction(number, information, context);
        else if (before_end.sa_handler != SIG_DFL && before_end.sa_handler != SIG_IGN) before_end.sa_handler(number);
        return;
    }
    if (!state->in_kernel || state->in_engine) return;
    Launch* launch = state->launch;
    cuplug_u32 place = __atomic_fetch_add(&launch->standing_count, 1, __ATOMIC_RELAXED);
    if (place < MAX_STANDING) describe_standing(state, launch->standing[place], (ucontext_t*)context);
    record_end(state);
    escape(state);
}

static volatile cuplug_u64 interrupts = 0;  // that have come since the handler was set

// On whichever thread Ctrl-C arrives: first what the program does, then an end to the kernel, soon.
static void handle_interrupt(int number, siginfo_t* information, void* context) {
    if (before_interrupt.sa_flags & SA_SIGINFO) before_interrupt.sa_sigaction(number, information, context);
    else before_interrupt.sa_handler(number);
    __atomic_add_fetch(&interrupts, 1, __ATOMIC_SEQ_CST);
    cuplug_u64 soon = now_ns() + PATIENCE_NS;
    if (watched && (!end_at || soon < end_at)) {
        end_reason = INTERRUPTED;
        end_at = soon;
        sem_post(&wake_watchdog);
    }
}

static void set_handler(int number, void (*handler)(int, siginfo_t*, void*), struct sigaction* before) {
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = handler;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigaction(number, &ours, before);
}

// Begins to notice interrupts, if the program handles them. Called again where the program has set a handler since.
static void notice_interrupts() {
    struct sigaction now;
    sigaction(SIGINT, nullptr, &now);
    if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) return;
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle_interrupt) return;
    before_interrupt = now;
    set_handler(SIGINT, handle_interrupt, nullptr);
}

// Of a team's workers the first is this thread's.
static void begin_watch(Launch* launch, State** team, cuplug_u32 count) {
    start_watchdog();
    if (!watching) return;
    set_handler(END, handle_end, &before_end);
    pthread_mutex_lock(&watch_lock);
    team[0]->native_thread = pthread_self();
    watched_workers = team;
    end_reason = TIMED_OUT;
    end_at = launch->timeout_ns ? now_ns() + launch->timeout_ns : 0;
    watched_count = count;
    watched = launch;
    if (interrupts != launch->interrupts_seen) {  // one came after Python had looked for it last
        end_reason = INTERRUPTED;
        end_at = now_ns() + PATIENCE_NS;
    }
    pthread_mutex_unlock(&watch_lock);
    if (end_at) sem_post(&wake_watchdog);
}

static void watch_more(cuplug_u32 count) {
    pthread_mutex_lock(&watch_lock);
    watched_count = count;
    pthread_mutex_unlock(&watch_lock);
}

static void end_watch() {
    if (!watching) return;
    pthread_mutex_lock(&watch_lock);
    watched = nullptr;
    end_at = 0;
    pthread_mutex_unlock(&watch_lock);
    struct sigaction now;
    sigaction(END, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle_end) sigaction(END, &before_end, nullptr);
}
