// What compiled modules and the engine know of each other. Plain data only; no C++ library is used on either side.
#pragma once

typedef __SIZE_TYPE__ cuplug_size;
typedef unsigned long long cuplug_u64;
typedef unsigned int cuplug_u32;

#define CUPLUG_ABI 12

namespace __cuplug {

struct Dim {
    cuplug_u32 x, y, z;
};

enum Fault {  // CUresult numbers
    FAULT_RESOURCES = 701,
    FAULT_ILLEGAL_ADDRESS = 700,
    FAULT_TIMEOUT = 702,
    FAULT_ASSERT = 710,
    FAULT_ILLEGAL_INSTRUCTION = 715,
    FAULT_MISALIGNED = 716,
    FAULT_LAUNCH_FAILED = 719,
};

enum Collective {
    COLLECT_SYNC,
    COLLECT_SHUFFLE,
    COLLECT_SHUFFLE_UP,
    COLLECT_SHUFFLE_DOWN,
    COLLECT_SHUFFLE_XOR,
    COLLECT_BALLOT,
    COLLECT_MATCH_ANY,
    COLLECT_MATCH_ALL,
    COLLECT_ADD,
    COLLECT_MIN,
    COLLECT_MAX,
    COLLECT_MIN_UNSIGNED,
    COLLECT_MAX_UNSIGNED,
    COLLECT_AND,
    COLLECT_OR,
    COLLECT_XOR,
    COLLECT_ACTIVE,
};

// What the threads of a tile of several warps meet for: an Exchange's `operation` there.
enum TileUse {
    TILE_SYNC,
    TILE_SHUFFLE,
    TILE_VOTE,
    TILE_REDUCE,
    TILE_SCAN,
};

// One use of a warp-wide function by one lane. The last lane to arrive computes every lane's result.
struct Exchange {
    cuplug_u32 operation;
    cuplug_u32 mask;
    cuplug_u64 value[2];
    cuplug_u32 argument;  // source lane, delta or lane mask of a shuffle
    cuplug_u32 width;
    cuplug_u32 line;
    cuplug_u32 converging;  // without a mask of its own: whoever arrives takes part
    cuplug_u64 result[2];
    cuplug_u32 flag;  // a second result: whether a shuffle's source was in range, the predicate of match_all
};

constexpr cuplug_u32 MAX_SLOTS = 4096;  // `__shared__` declarations of a module

// A variable in memory of a block or a thread, for messages: what a program calls it, and of what it is an array.
struct Named {
    const char* name;        // null behind the last one of several
    cuplug_u64 offset, nbytes;
    cuplug_u32 element;      // the size of what its innermost dimension consists of
    cuplug_u32 rank;         // how many dimensions it has, and their sizes: the outer ones of four at most
    cuplug_u32 extents[4];
};

template <class V> struct Extents {
    static constexpr cuplug_u32 rank = 0, element = sizeof(V);
    static constexpr void write(cuplug_u32*) {}
};
template <class V, cuplug_size count> struct Extents<V[count]> {
    static constexpr cuplug_u32 rank = Extents<V>::rank == 4 ? 1 : Extents<V>::rank + 1;
    static constexpr cuplug_u32 element = rank == 1 ? sizeof(V) : Extents<V>::element;
    static constexpr void write(cuplug_u32* extents) {
        extents[0] = count;
        if (rank > 1) Extents<V>::write(extents + 1);
    }
};
template <class V> constexpr Named named(const char* name, cuplug_u64 offset) {
    Named made = {name, offset, sizeof(V), Extents<V>::element, Extents<V>::rank, {}};
    Extents<V>::write(made.extents);
    return made;
}

struct SharedSlot {
    cuplug_u64 block;  // the number of the block for which `data` is ready
    char* data;
    cuplug_u64 launch;
    const Named* names;  // of what lies there, where kernels are checked
};

// What a texture or surface object shows. Its handle is the address of one of these.
struct Image {
    char* data;
    cuplug_u64 pitch, slice;              // bytes from row to row, and from plane to plane
    cuplug_u32 width, height, depth;      // in texels; a height or depth of 0: one dimension or two
    char kind;                            // of a channel: f, i, u or h
    unsigned char nbytes, channels;
    unsigned char linear, normalized_coordinates, normalized_values;
    unsigned char array;                  // whether it shows an array, which has no addresses for tex1Dfetch
    unsigned char address[3];             // beyond the edges, by axis: 0 wrap, 1 clamp, 2 mirror, 3 border (zero)
};

// One look at a texture. `index` is for tex1Dfetch, which takes no coordinates.
struct Look {
    float x, y, z;
    int index;
    cuplug_u32 dimensions;                // 0: by index
    cuplug_u32 result[4];                 // bits of floats, or integers
    cuplug_u32 is_float;
};

struct Api {
    void (*begin_thread)(cuplug_u32 thread);
    void (*end_thread)();
    int (*barrier)(int line, int reduction, int value);
    void (*meet_grid)(int line);
    void (*meet_tile)(cuplug_u32 first, cuplug_u32 count, Exchange*);  // threads of a block, by their linear index
    void (*exchange)(Exchange*);
    void (*yield)();
    void* (*shared)(SharedSlot* slot, cuplug_u64 nbytes, cuplug_u64 alignment);
    void (*illegal_access)(cuplug_u64 address, cuplug_u64 nbytes, int write, const void* code) __attribute__((noreturn));
    void (*misaligned)(cuplug_u64 address, cuplug_u64 alignment, const char* type, const char* file,
                                    cuplug_u32 line) __attribute__((noreturn));
    void (*stop)(int code, const char* message) __attribute__((noreturn));
    void (*failed_assertion)(const char* expression, const char* file, int line, const char* function) __attribute__((noreturn));
    int (*print)(const char* format, __builtin_va_list arguments);
    void* (*allocate)(cuplug_u64 nbytes);
    void (*release)(void* address);
    void (*look)(cuplug_u64 texture, Look*);
    char* (*surface)(cuplug_u64 surface, int x, int y, int z, cuplug_u32 nbytes);
    // For kernels compiled with check="races":
    void (*touch)(cuplug_u64 address, cuplug_u32 nbytes, cuplug_u32 kind, cuplug_u64 code);
    void (*fence)();
    void (*pass_barrier)();  // for all threads of the block, which its own text lets come to it one after the other
    void (*begin_local)(char* start, cuplug_u64 offset, const Named* about, int plain);
    void (*end_local)(char* start, cuplug_u64 offset, cuplug_u64 nbytes);
};

// What an access does, as `touch` is told.
enum Touch : cuplug_u32 { TOUCH_READ = 1, TOUCH_WRITE = 2, TOUCH_ATOMIC = 4, TOUCH_VOLATILE = 8, TOUCH_ORDERED = 16 };

// What runs blocks, one at a time. It lies at the lowest address of a region of REGION bytes, aligned to as much, which
// also holds the stacks that kernels run on: so a kernel finds it from its stack pointer.
struct Worker {
    const Api* api;
    const char* parameters;
    Dim threadIdx, blockIdx, blockDim, gridDim;
    cuplug_u32 thread;        // the linear index of the running thread
    cuplug_u32 next_thread;   // the first one that has not begun
    cuplug_u32 thread_count;
    cuplug_u32 shared_nbytes; // dynamic shared memory
    char* shared;
    SharedSlot* slots;
    cuplug_u64 block;         // counts up with every block that this worker runs, never 0
    cuplug_u32 spins;
    cuplug_u32 cooperative;   // whether the blocks of the grid may wait for one another
    struct Told* told;        // for kernels compiled with check="races"
    cuplug_u32 carry;         // inline PTX's condition code, which one instruction leaves for the next
    cuplug_u32 leaves;        // whether the running thread is at a `return` of the kernel
};

constexpr cuplug_u64 REGION = 1ull << 30;
constexpr cuplug_u64 USED = 448 << 10;  // of it, what the worker itself uses; then what nobody may touch
constexpr cuplug_u64 OWN = 512 << 10;  // where the block's shared memory begins
constexpr cuplug_u64 LOCAL = 1 << 20;  // and the stacks from here on

struct Parameter {
    cuplug_u32 offset, nbytes, alignment;
    char kind;               // p pointer, i signed, u unsigned, b bool, f floating, h half, g bfloat16, s anything else
    char constant;           // a pointer to const
    char pointee_kind;       // the kind of what a pointer points to, or 's'
    cuplug_u32 pointee;      // the size of what a pointer points to, 0 for void
};

enum Habit : cuplug_u32 {
    RETURNS = 1,             // its threads may return before the end
    LOCKSTEP = 2,            // its source expects warps to go in step
    LEAVES = 4,              // its threads may leave by the `return` of a function that has barriers
};

struct Kernel {
    const char* name;        // as the program asks for it
    void (*run)(Worker*);    // runs one block, or with barriers: threads until none is left to begin
    const Parameter* parameters;
    cuplug_u32 parameter_count;
    cuplug_u32 parameter_bytes;
    cuplug_u32 fibres;       // whether threads may wait for each other
    cuplug_u32 max_threads;  // __launch_bounds__, or 0
    cuplug_u32 habits;       // see Habit
};

struct Symbol {
    const char* name;
    void* address;
    cuplug_u64 nbytes;
    cuplug_u32 constant;     // 1: declared const, 2: __constant__
};

struct Module {
    cuplug_u32 abi;
    cuplug_u32 kernel_count, symbol_count;
    const Kernel* const* kernels;
    const Symbol* symbols;
    char *begin, *end;       // the module in memory
};

__attribute__((always_inline)) inline Worker* self() {
    cuplug_u64 stack;
#if defined(__x86_64__)
    asm("mov %%rsp, %0" : "=r"(stack));
#elif defined(__aarch64__)
    asm("mov %0, sp" : "=r"(stack));
#else
    stack = (cuplug_u64)__builtin_frame_address(0);
#endif
    return (Worker*)(stack & ~(REGION - 1));
}

}  // namespace __cuplug
