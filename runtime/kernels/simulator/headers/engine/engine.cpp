// The engine that runs kernels compiled for the host: blocks over the processor's cores, threads of a block as a loop
// or as fibres. One for the process; Python calls the functions at the end.
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "fibres.h"
#include "heap.h"
#include "host_accesses.h"
#include "images.h"
#include "watch.h"

// --- shared memory

constexpr cuplug_u64 RED_ZONE = 64;
constexpr int UNINITIALISED = 0xCB;

static void* shared(SharedSlot* slot, cuplug_u64 nbytes, cuplug_u64 alignment) {
    State* state = (State*)self();
    cuplug_u64 beside = RED_ZONE;
    if (state->launch->races) beside = nbytes < 256 ? 256 : nbytes < 4096 ? (nbytes + 7) & ~7ull : 4096;
    if (slot->launch != state->launch->number) {
        if (alignment < 16) alignment = 16;
        cuplug_u64 offset = (state->shared_used + alignment - 1) / alignment * alignment;
        if (offset + nbytes + beside > SHARED_NBYTES) beside = RED_ZONE;
        if (offset + nbytes + beside > SHARED_NBYTES)
            stop(FAULT_RESOURCES, "the kernel's shared variables do not fit into shared memory");
        state->static_shared += (cuplug_u32)nbytes;
        if (state->static_shared + state->shared_nbytes > state->launch->shared_limit)
            stop(FAULT_RESOURCES, "static and dynamic shared memory are together more than a block may have");
        slot->data = state->base() + SHARED + offset;
        slot->launch = state->launch->number;
        state->shared_used = offset + nbytes + beside;
        if (!shadow::broken) shadow::write({(cuplug_u64)slot->data, nbytes}, true);
    }
    memset(slot->data, UNINITIALISED, nbytes);
    slot->block = state->block;
    return slot->data;
}

static void prepare_shared(State* state) {
    cuplug_u64 start = (cuplug_u64)state->base() + SHARED, nbytes = state->launch->shared_nbytes;
    if (!shadow::broken) {
        memset((void*)shadow::of(start - SHARED_MARGIN), shadow::FORBIDDEN, (SHARED_NBYTES + 2 * SHARED_MARGIN) / 8);
        shadow::write({start, nbytes}, true);
    }
    state->static_shared = 0;
    state->shared = (char*)start;
    state->shared_nbytes = (cuplug_u32)nbytes;
    state->shared_used = nbytes ? nbytes + RED_ZONE : 0;
}

// --- printf

static int print(const char* format, va_list arguments) {
    State* state = (State*)self();
    CalledByKernel guard(state);
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(nullptr, 0, format, again);
    va_end(again);
    if (length < 0) return -1;
    cuplug_u64 needed = state->text_nbytes + (cuplug_u64)length + 1;
    if (needed > state->text_capacity) {
        char* larger = (char*)realloc(state->text, needed * 2);
        if (!larger) return -1;  // as a printf that fails; what was printed stays
        state->text = larger;
        state->text_capacity = needed * 2;
    }
    if (state->printed_count == state->printed_capacity) {
        const auto capacity = state->printed_capacity * 2 + 64;
        Printed* larger = (Printed*)realloc(state->printed, capacity * sizeof(Printed));
        if (!larger) return -1;
        state->printed = larger;
        state->printed_capacity = capacity;
    }
    vsnprintf(state->text + state->text_nbytes, (size_t)length + 1, format, arguments);
    state->printed[state->printed_count] = {state->block_index, state->printed_count, state->text_nbytes, (cuplug_u64)length};
    ++state->printed_count;
    state->text_nbytes += (cuplug_u64)length;
    int conversions = 0;
    for (const char* p = format; *p; ++p)
        if (*p == '%') {
            if (p[1] == '%') ++p;
            else ++conversions;
        }
    return conversions;
}

// --- blocks

static void run_block(State* state, cuplug_u64 index) {
    Dim grid = state->gridDim;
    state->block_index = index;
    state->blockIdx = {(cuplug_u32)(index % grid.x), (cuplug_u32)(index / grid.x % grid.y),
                       (cuplug_u32)(index / grid.x / grid.y)};
    ++state->block;
    {
        InEngine inside(state);  // so that nobody leaves with a lock held, or out of the middle of a table
        if (state->cooperative) grid::begin_block(state);
        if (state->launch->races) races::begin_block(state);
        if (state->shared_nbytes) memset(state->shared, UNINITIALISED, state->shared_nbytes);
    }
    if (state->kernel->fibres) run_fibres(state);
    else state->kernel->run(state);
    InEngine inside(state);
    if (state->launch->races) races::end_block(state);
    if (state->cooperative) grid::end_block(state);
}

// The main stack's function: takes chunks of blocks until there are none, or a fault before them.
static void run_blocks() {
    State* state = (State*)self();
    Launch* launch = state->launch;
    state->in_kernel = 1;
    for (;;) {
        cuplug_u64 begin = __atomic_fetch_add(&launch->next_block, launch->chunk, __ATOMIC_RELAXED);
        if (begin >= launch->block_count) break;
        cuplug_u64 end = begin + launch->chunk < launch->block_count ? begin + launch->chunk : launch->block_count;
        cuplug_u64 index = begin;
        for (; index < end && index < launch->stop_at; ++index) run_block(state, index);
        if (index < end && launch->ended) {  // before the block began: nobody has said so
            InEngine inside(state);
            state->block_index = index;
            record_end(state);
        }
    }
    state->in_kernel = 0;
    void* unused;
    cuplug_switch(&unused, state->native);
    __builtin_unreachable();
}

static void run_worker(State* state, Launch* launch) {
    stack_t ours, before;
    memset(&ours, 0, sizeof ours);
    ours.ss_sp = state->signal_stack;
    ours.ss_size = sizeof state->signal_stack;
    sigaltstack(&ours, &before);
    state->launch = launch;
    state->cooperative = launch->cooperative;
    state->told = &races::told;
    state->kernel = launch->kernel;
    state->blockDim = launch->block;
    state->gridDim = launch->grid;
    state->thread_count = launch->block.x * launch->block.y * launch->block.z;
    memcpy((char*)state->parameters, launch->parameters, launch->kernel->parameter_bytes);
    prepare_shared(state);
    state->in_kernel = state->in_engine = 0;
    current_state = state;
    if (sigsetjmp(state->escape, 1) == 0) cuplug_switch(&state->native, fresh_stack(main_stack_top(state), run_blocks));
    else {
        if (launch->checked) local_arrays::allow_stacks(state);
        if (state->cooperative) grid::end_block(state);
    }
    state->in_kernel = 0;
    current_state = nullptr;
    cuplug_u32 most = launch->static_shared;
    while (most < state->static_shared &&
           !__atomic_compare_exchange_n(&launch->static_shared, &most, state->static_shared, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
    }
    sigaltstack(&before, nullptr);
}

// --- the pool: worker 0 is whoever launches, the others have threads of their own

static cuplug_u32 threads_started = 0;  // of workers 1 and up
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, finished = PTHREAD_COND_INITIALIZER;
static Launch* offered = nullptr;
static cuplug_u64 offer = 0;
static cuplug_u32 wanted = 0, busy = 0;

static void* helper(void* number) {
    State* state = workers[(cuplug_size)number];
    state->native_thread = pthread_self();
    cuplug_u64 seen = 0;
    pthread_mutex_lock(&pool_lock);
    for (;;) {
        while (seen == offer || (cuplug_size)number >= wanted) {
            seen = offer;
            pthread_cond_wait(&wake, &pool_lock);
        }
        seen = offer;
        Launch* launch = offered;
        pthread_mutex_unlock(&pool_lock);
        run_worker(state, launch);
        pthread_mutex_lock(&pool_lock);
        if (--busy == 0) pthread_cond_signal(&finished);
    }
    return nullptr;
}

static const Api API = {begin_thread, end_thread,     barrier,    meet_grid, meet_tile, exchange, yield,           shared,
                        illegal_access, misaligned, stop,        failed_assertion, print,  allocate, release,
                        images::look, images::surface, races::touch, races::fence, races::pass_barrier,
                        races::begin_local, races::end_local};

// While one lives, threads that start do not get signals to the process: those are the program's.
struct SignalsElsewhere {
    sigset_t before;
    SignalsElsewhere() {
        sigset_t all;
        sigfillset(&all);
        for (int number : CAUGHT) sigdelset(&all, number);
        sigdelset(&all, END);
        pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~SignalsElsewhere() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
};

static bool start_workers(cuplug_u32 count) {
    for (cuplug_u32 i = 0; i < count; ++i)
        if (!workers[i] && !(workers[i] = make_worker(API))) return i > 0;
    SignalsElsewhere guard;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (threads_started + 1 < count) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, helper, (void*)(cuplug_size)(threads_started + 1))) break;
        ++threads_started;
    }
    pthread_attr_destroy(&attributes);
    return true;
}

static void run_in_pool(Launch* launch, cuplug_u32 team) {
    begin_watch(launch, workers, team);
    if (team > 1) {
        pthread_mutex_lock(&pool_lock);
        offered = launch;
        wanted = team;
        busy = team - 1;
        ++offer;
        pthread_cond_broadcast(&wake);
        pthread_mutex_unlock(&pool_lock);
    }
    run_worker(workers[0], launch);
    if (team > 1) {
        pthread_mutex_lock(&pool_lock);
        while (busy) pthread_cond_wait(&finished, &pool_lock);
        wanted = 0;
        pthread_mutex_unlock(&pool_lock);
    }
    end_watch();
}

// --- cooperative launches: a worker and a thread for each block

constexpr cuplug_u32 GUARDED_STACKS = 8192;  // a guard costs two mappings, of which a process has some 65,000

static void* run_in_thread(void* state) {
    run_worker((State*)state, ((State*)state)->launch);
    return nullptr;
}

static void run_cooperatively(Launch* launch) {
    const cuplug_u32 count = (cuplug_u32)launch->block_count;
    const cuplug_u32 threads = launch->block.x * launch->block.y * launch->block.z;
    for (cuplug_u32 i = 0; i < count; ++i) {
        State*& state = grid_workers[i];
        if (!state && !(state = make_worker(API))) {
            refuse(launch, "the process has no room for the blocks of this cooperative launch");
            return;
        }
        if ((cuplug_u64)count * threads > GUARDED_STACKS) prepare_stacks(state, threads);
        state->launch = launch;
        state->native_thread = pthread_self();
        if (launch->races) local_arrays::allow_stacks(state);
    }
    grid::begin(launch);
    begin_watch(launch, grid_workers, 1);
    static pthread_t started[MAX_BLOCKS];
    cuplug_u32 running = 1;
    {
        SignalsElsewhere guard;
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 256 << 10);
        for (; running < count; ++running) {
            if (pthread_create(&started[running], &attributes, run_in_thread, grid_workers[running])) break;
            grid_workers[running]->native_thread = started[running];
            watch_more(running + 1);
        }
        pthread_attr_destroy(&attributes);
    }
    if (running < count) refuse(launch, "the process cannot start a thread for each block of this cooperative launch");
    else run_worker(grid_workers[0], launch);
    grid::wake();
    for (cuplug_u32 i = 1; i < running; ++i) pthread_join(started[i], nullptr);
    end_watch();
    // Of so many blocks the stacks would keep much memory.
    for (cuplug_u32 i = 0; i < count; ++i) madvise(grid_workers[i]->base() + STACKS, threads * STACK_NBYTES, MADV_DONTNEED);
}

static char* output = nullptr;

static int by_block(const void* a, const void* b) {
    const Printed *x = (const Printed*)a, *y = (const Printed*)b;
    if (x->block != y->block) return x->block < y->block ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

// What the workers printed, in the order of blocks.
static cuplug_u64 gather_output(State** team, cuplug_u32 count) {
    cuplug_u64 entries = 0, nbytes = 0;
    for (cuplug_u32 i = 0; i < count; ++i)
        if (team[i]) entries += team[i]->printed_count, nbytes += team[i]->text_nbytes;
    if (!entries) return 0;
    struct Source { Printed entry; const char* text; };
    Source* all = (Source*)malloc(entries * sizeof(Source));
    char* larger = (char*)realloc(output, nbytes + 1);
    if (larger) output = larger;
    if (!all || !larger) {
        free(all);
        return 0;  // as a printf that fails; what was printed stays, and comes with the next kernel's
    }
    cuplug_u64 n = 0, used = 0;
    for (cuplug_u32 i = 0; i < count; ++i) {
        State* state = team[i];
        for (cuplug_u64 j = 0; state && j < state->printed_count; ++j)
            all[n++] = {state->printed[j], state->text + state->printed[j].offset};
    }
    qsort(all, n, sizeof(Source), by_block);
    for (cuplug_u64 i = 0; i < n; ++i) {
        memcpy(output + used, all[i].text, all[i].entry.nbytes);
        used += all[i].entry.nbytes;
    }
    free(all);
    for (cuplug_u32 i = 0; i < count; ++i)
        if (team[i]) team[i]->printed_count = team[i]->text_nbytes = 0;
    return used;
}

// --- what Python calls

extern "C" {

#define PUBLIC __attribute__((visibility("default")))

static pthread_mutex_t launch_lock = PTHREAD_MUTEX_INITIALIZER;
static cuplug_u64 launches = 0;

PUBLIC cuplug_u32 cuplug_abi() { return CUPLUG_ABI; }

// Whether checked kernels can run here: the shadow of the memory at `probe` can be mapped.
PUBLIC int cuplug_can_check() {
    pthread_mutex_lock(&launch_lock);
    bool started = start_workers(1);
    pthread_mutex_unlock(&launch_lock);
    return started && !shadow::broken;
}

// Lets kernels touch a range for good, or no more: a module's own memory.
PUBLIC void cuplug_allow(cuplug_u64 address, cuplug_u64 nbytes, int allow) {
    pthread_mutex_lock(&launch_lock);
    shadow::change({address, nbytes}, allow != 0);
    pthread_mutex_unlock(&launch_lock);
}

// See host_accesses.h. Called under the interpreter's lock of one machine at a time.
PUBLIC cuplug_u64 cuplug_watch(cuplug_u64 address, cuplug_u64 nbytes, int closed) { return close_or_open(address, nbytes, closed); }

// Lets texture and surface functions know an image, or no more. Whether it could.
PUBLIC int cuplug_image(const Image* image, int add) {
    pthread_mutex_lock(&launch_lock);
    const bool done = images::change(image, add != 0);
    pthread_mutex_unlock(&launch_lock);
    return done;
}

// How much memory kernels may hold by malloc and new.
PUBLIC void cuplug_set_heap(cuplug_u64 nbytes) { heap_nbytes = nbytes; }

// Lets the process end with status 1 where it would end with 0: a program of Python's can't say it so late.
PUBLIC void cuplug_fail_at_exit() {
#if defined(__GLIBC__)
    on_exit([](int status, void*) {
        if (status) return;
        fflush(nullptr);
        _exit(1);
    }, nullptr);
#endif
}

// How many interrupts have come. One that comes between this call and that of cuplug_run ends the kernel, too.
PUBLIC cuplug_u64 cuplug_interrupts() {
    notice_interrupts();
    return interrupts;
}

// Runs a kernel to its end. `ranges` is the device memory that it may touch (see shadow::apply). Returns the fault's code.
PUBLIC int cuplug_run(Launch* launch, char** text, cuplug_u64* text_nbytes, const shadow::Range* ranges, cuplug_u64 count) {
    pthread_mutex_lock(&launch_lock);
    launch->fault.code = 0;
    launch->static_shared = launch->ended = launch->standing_count = 0;
    launch->number = ++launches;
    launch->block_count = (cuplug_u64)launch->grid.x * launch->grid.y * launch->grid.z;
    launch->next_block = 0;
    launch->stop_at = launch->block_count;
    cuplug_u64 threads = launch->block_count * launch->block.x * launch->block.y * launch->block.z;
    cuplug_u32 team = launch->workers < MAX_WORKERS ? launch->workers : MAX_WORKERS;
    if (team > launch->block_count) team = (cuplug_u32)launch->block_count;
    if (threads <= 2048 && !launch->kernel->fibres) team = 1;  // not worth waking anybody
    if (launch->races) team = 1;  // so that all is in one order, the same in every run
    start_workers(team ? team : 1);
    if (team > threads_started + 1) team = threads_started + 1;
    if (!team) team = 1;
    launch->chunk = launch->block_count / (team * 8ull);
    if (launch->chunk < 1) launch->chunk = 1;
    if (launch->chunk > 64) launch->chunk = 64;
    if (launch->cooperative) launch->chunk = 1;
    if (launch->checked && !shadow::apply(ranges, count))
        refuse(launch, shadow::broken ? "the table of what kernels may touch has no room where it should lie in this process: "
                                        "close drivers that are done, or compile kernels with check=False"
                                      : "this machine has no memory left to note what kernels may touch");
    if (launch->races) races::begin_launch(workers[0], launch);
    catch_signals();
    if (launch->cooperative) run_cooperatively(launch);
    else run_in_pool(launch, team);
    release_signals();
    shadow::unmap_forbidden();
    if (launch->races) races::end_launch();
    *text_nbytes = launch->cooperative ? gather_output(grid_workers, (cuplug_u32)launch->block_count) : gather_output(workers, team);
    *text = output;
    pthread_mutex_unlock(&launch_lock);
    return launch->fault.code;
}

}
