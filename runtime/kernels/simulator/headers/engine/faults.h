// What goes wrong in a kernel: recorded once for a launch, the lowest block first, and the worker abandons its block.
#pragma once

#include <signal.h>
#include <stdarg.h>
#include <ucontext.h>

#include "local_arrays.h"
#include "names.h"

static pthread_mutex_t fault_lock = PTHREAD_MUTEX_INITIALIZER;

// A race that was found while others wait at a barrier that its thread may have gone past: it is told unless that is so.
static struct {
    bool waits;
    Dim thread;
    cuplug_u64 places[2];
    char text[1024];
} held_race;

static void record(State* state, int code, cuplug_u64 address, cuplug_u64 nbytes, int write, const char* format, ...) {
    Launch* launch = state->launch;
    InEngine guard(state);
    pthread_mutex_lock(&fault_lock);
    FaultRecord& fault = launch->fault;
    if (!fault.code || state->block_index < fault.block_index) {
        fault.code = code;
        fault.address = address;
        fault.nbytes = nbytes;
        fault.write = write;
        fault.block_index = state->block_index;
        fault.block = state->blockIdx;
        fault.thread = state->threadIdx;
        if (state->fault_code) fault.places[0] = state->fault_code - launch->code_begin;
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(fault.text, sizeof fault.text, format, arguments);
        va_end(arguments);
        if (held_race.waits) {  // which came first
            fault.code = FAULT_LAUNCH_FAILED;
            fault.address = fault.nbytes = 0;
            fault.write = -1;
            fault.thread = held_race.thread;
            memcpy(fault.places, held_race.places, sizeof fault.places);
            memcpy(fault.text, held_race.text, sizeof fault.text);
        }
        if (state->block_index < launch->stop_at) launch->stop_at = state->block_index;
    }
    pthread_mutex_unlock(&fault_lock);
    state->fault_code = 0;
}

// Lets what is recorded next say where in the module it is from, if that is in the module.
static void note_code(State* state, cuplug_u64 code) {
    const bool is_there = code >= state->launch->code_begin && code < state->launch->code_end;
    state->fault_code = is_there ? code : 0;
}

// A launch that cannot begin.
static void refuse(Launch* launch, const char* why) {
    pthread_mutex_lock(&fault_lock);
    if (!launch->fault.code) {
        memset(&launch->fault, 0, sizeof launch->fault);
        launch->fault.code = FAULT_RESOURCES;
        launch->fault.write = -1;
        snprintf(launch->fault.text, sizeof launch->fault.text, "%s", why);
    }
    launch->stop_at = 0;
    pthread_mutex_unlock(&fault_lock);
}

constexpr int END = SIGURG;  // ends a worker's block, see watch.h; it does nothing to whoever does not expect it

// Holds the engine for a function that kernels call. The watchdog lets whoever is inside go on; so the kernel's end is
// looked for on the way out, by the signal that was then passed over.
struct CalledByKernel {
    State* state;
    explicit CalledByKernel(State* state) : state(state) { state->in_engine = state->in_engine + 1; }
    ~CalledByKernel() {
        state->in_engine = state->in_engine - 1;
        if (state->launch->ended && state->in_kernel && !state->in_engine) pthread_kill(pthread_self(), END);
    }
};

static void record_end(State* state) {
    record(state, FAULT_TIMEOUT, 0, 0, -1, "%s", state->launch->ended == INTERRUPTED ? "was ended by an interrupt" : "ran too long");
}

__attribute__((noreturn)) static void escape(State* state) { siglongjmp(state->escape, 1); }

__attribute__((noreturn)) static void stop(int code, const char* message) {
    State* state = (State*)self();
    record(state, code, 0, 0, -1, "%s", message);
    escape(state);
}

__attribute__((noreturn)) static void illegal_access(cuplug_u64 address, cuplug_u64 nbytes, int write, const void* code) {
    State* state = (State*)self();
    if (!code) code = (const char*)__builtin_return_address(0) - 1;  // the instruction that called
    note_code(state, (cuplug_u64)code);
    cuplug_u64 offset = address - (cuplug_u64)state->base();
    char beside[300];
    if (offset >= MAIN_STACK && offset < REGION && local_arrays::describe(state, address, beside, sizeof beside))
        record(state, FAULT_ILLEGAL_ADDRESS, address, nbytes, write, "%s %llu bytes of local memory, %s",
               write ? "writes" : "reads", nbytes, beside);
    else if (offset >= SHARED - SHARED_MARGIN && offset < SHARED + SHARED_NBYTES + SHARED_MARGIN) {
        const cuplug_u64 behind = address - (cuplug_u64)state->shared - state->shared_nbytes;
        const names::Variable it = names::find_shared(state, address, names::BESIDE);
        if (state->shared_nbytes && behind < names::BESIDE && (!it.about || address - it.end() > behind))
            snprintf(beside, sizeof beside, "behind the end of the %u bytes of dynamic shared memory", state->shared_nbytes);
        else if (it.about)
            names::describe_outside(it, address, beside, sizeof beside);
        else
            snprintf(beside, sizeof beside, "outside of all variables and of the %u bytes of dynamic shared memory", state->shared_nbytes);
        record(state, FAULT_ILLEGAL_ADDRESS, address, nbytes, write, "%s %llu bytes of shared memory %s", write ? "writes" : "reads",
               nbytes, beside);
    } else
        record(state, FAULT_ILLEGAL_ADDRESS, address, nbytes, write, "%s", "");
    escape(state);
}

__attribute__((noreturn)) static void misaligned(cuplug_u64 address, cuplug_u64 alignment, const char* type, const char* file,
                                    cuplug_u32 line) {
    State* state = (State*)self();
    char where[32] = "", name[100];
    if (const char* found = strstr(type, "T = ")) {  // of a function's full name
        size_t length = strcspn(found += 4, ";]");  // gcc writes [with T = int; P = char*], clang [T = int, P = char *]
        if (const char* next = strstr(found, ", P = "); next && next < found + length) length = (size_t)(next - found);
        snprintf(name, sizeof name, "'%.*s'", (int)length, found);
        type = name;
    }
    if (line) snprintf(where, sizeof where, " in {line %u}", line);
    record(state, FAULT_MISALIGNED, address, 0, -1, "%s%s needs an address that is a multiple of %llu, not %#llx", type,
           where, alignment, address);
    (void)file;
    escape(state);
}

__attribute__((noreturn)) static void failed_assertion(const char* expression, const char* file, int line, const char* function) {
    State* state = (State*)self();
    record(state, FAULT_ASSERT, 0, 0, -1, "%s:%d: %s: assertion `%s` failed", file, line, function, expression);
    escape(state);
}

static cuplug_u64 code_of(const void* context) {
#if defined(__x86_64__)
    return (cuplug_u64)((const ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return ((const ucontext_t*)context)->uc_mcontext.pc;
#endif
}

// The engine's own tables grow with what kernels do. Rule: where this machine has no memory left for one, the launch fails
// with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES and says for what; nothing that was there is lost.
__attribute__((noreturn)) static void stop_for_memory(const char* for_what) {
    char text[200];
    snprintf(text, sizeof text, "this machine has no memory left for %s", for_what);
    stop(FAULT_RESOURCES, text);
}

template <class T> static T* enlarged(T* items, cuplug_u64 count, const char* for_what) {
    T* larger = (T*)realloc((void*)items, count * sizeof(T));
    if (!larger) stop_for_memory(for_what);
    return larger;
}

static const int CAUGHT[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
static struct sigaction earlier[64];

static void handle(int number, siginfo_t* information, void* context) {
    State* state = current_state;
    if (!state || information->si_code <= 0) {  // not a kernel's doing: as if we were not here
        struct sigaction& before = earlier[number];
        if (before.sa_flags & SA_SIGINFO) {
            before.sa_sigaction(number, information, context);
        } else if (before.sa_handler == SIG_DFL) {
            signal(number, SIG_DFL);
            if (information->si_code <= 0) raise(number);
        } else if (before.sa_handler != SIG_IGN) {
            before.sa_handler(number);
        }
        return;
    }
    cuplug_u64 address = (cuplug_u64)information->si_addr;
    constexpr cuplug_u64 shadow_end = 1ull << 44;  // where memory of the simulator begins
    note_code(state, code_of(context));
    if (number == SIGFPE)
        record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "integer division by zero, or INT_MIN / -1");
    else if (number == SIGILL)
        record(state, FAULT_ILLEGAL_INSTRUCTION, 0, 0, -1, "an instruction that this processor does not have");
    else if (in_guard(state, address))
        record(state, FAULT_LAUNCH_FAILED, 0, 0, -1, "the thread's stack overflowed: local variables and calls of a "
               "thread may take %llu bytes here", (STACK_NBYTES - GUARD) / 1024 * 1024);
    else if (number == SIGSEGV && information->si_code == 0x80)  // SI_KERNEL: not an address at all
        record(state, FAULT_ILLEGAL_ADDRESS, 0, 0, -1, "takes what is no pointer for one, with more than 47 "
               "significant bits");
    else if (state->launch->checked && address >= shadow::of(0) && address < shadow_end) {
        bool forbidden;
        {
            CalledByKernel guard(state);  // what is mapped is to be noted
            forbidden = shadow::forbid(address);
        }
        if (forbidden) {
            state->fault_code = 0;
            return;  // the check is made again, and reports the access itself
        }
        record(state, FAULT_ILLEGAL_ADDRESS, shadow::told_by(address), 1, -1, "%s", "");
    } else
        record(state, FAULT_ILLEGAL_ADDRESS, address, 1, -1, "%s", "");
    escape(state);
}

static void catch_signals() {
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int number : CAUGHT) sigaction(number, &ours, &earlier[number]);
}

static void release_signals() {
    for (int number : CAUGHT) sigaction(number, &earlier[number], nullptr);
}
