// How the engine calls a kernel whatever its parameters are, and what instrumented code calls when a check fails.
#pragma once

#ifndef CUPLUG_CHECKED
#define CUPLUG_CHECKED 0
#endif

struct __half;
struct __nv_bfloat16;

namespace __cuplug {

template <class T> struct Plain { typedef T type; };
template <class T> struct Plain<const T> { typedef T type; };
template <class T> struct Plain<volatile T> { typedef T type; };
template <class T> struct Plain<const volatile T> { typedef T type; };
template <class T> struct IsSigned { static constexpr bool value = (T)-1 < (T)0; };
template <class T> struct SizeOf { static constexpr cuplug_u32 value = sizeof(T); };
template <> struct SizeOf<void> { static constexpr cuplug_u32 value = 0; };
template <class R, class... A> struct SizeOf<R(A...)> { static constexpr cuplug_u32 value = 0; };

template <class T, bool integer, bool is_enum> struct KindOf { static constexpr char value = 's'; };
template <class T> struct KindOf<T, true, false> { static constexpr char value = IsSigned<T>::value ? 'i' : 'u'; };
template <class T> struct KindOf<T, false, true> {
    static constexpr char value = IsSigned<__underlying_type(T)>::value ? 'i' : 'u';
};
template <> struct KindOf<bool, true, false> { static constexpr char value = 'b'; };
template <> struct KindOf<float, false, false> { static constexpr char value = 'f'; };
template <> struct KindOf<double, false, false> { static constexpr char value = 'f'; };
template <> struct KindOf<__half, false, false> { static constexpr char value = 'h'; };
template <> struct KindOf<__nv_bfloat16, false, false> { static constexpr char value = 'g'; };

template <class T> struct Kind {
    static constexpr char value = KindOf<T, IsInteger<T>::value, __is_enum(T)>::value, constant = 0;
    static constexpr char pointee_kind = 's';
    static constexpr cuplug_u32 pointee = 0;
};
template <class T> struct Kind<T*> {
    typedef typename Plain<T>::type P;
    static constexpr char value = 'p', constant = !IsSame<P, T>::value && !IsSame<volatile P, T>::value;
    static constexpr cuplug_u32 pointee = SizeOf<P>::value;
    static constexpr char pointee_kind = Kind<P>::value;
};

template <cuplug_u32... I> struct Indices {};
template <cuplug_u32 N, cuplug_u32... I> struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <cuplug_u32... I> struct MakeIndices<0, I...> { typedef Indices<I...> type; };

// The layout of a kernel's parameters: one after the other, each at its natural alignment.
template <class... A> struct Layout {
    static constexpr cuplug_u32 count = sizeof...(A);
    struct Table {
        Parameter parameters[count + 1];
        cuplug_u32 nbytes;
    };
    static constexpr Table make() {
        Table table{{{0, (cuplug_u32)sizeof(A), (cuplug_u32)alignof(A), Kind<A>::value, Kind<A>::constant,
                      Kind<A>::pointee_kind, Kind<A>::pointee}...}, 0};
        cuplug_u32 end = 0;
        for (cuplug_u32 i = 0; i < count; ++i) {
            Parameter& p = table.parameters[i];
            end = (end + p.alignment - 1) / p.alignment * p.alignment;
            p.offset = end;
            end += p.nbytes;
        }
        table.nbytes = end;
        return table;
    }
    static constexpr Table table = make();
};

// The worker's own fields, read and written without spending a check on them. What a kernel may be inlined into cannot be
// CUPLUG_SILENT, and touches nothing but by these.
__attribute__((always_inline)) inline cuplug_u32 load(const cuplug_u32& where) {
    cuplug_u32 value;
#if defined(__x86_64__)
    asm volatile("movl %1, %0" : "=r"(value) : "m"(where));
#elif defined(__aarch64__)
    asm volatile("ldr %w0, %1" : "=r"(value) : "m"(where));
#else
    value = where;
#endif
    return value;
}
__attribute__((always_inline)) inline void store(cuplug_u32& where, cuplug_u32 value) {
#if defined(__x86_64__)
    asm volatile("movl %1, %0" : "=m"(where) : "r"(value));
#elif defined(__aarch64__)
    asm volatile("str %w1, %0" : "=m"(where) : "r"(value));
#else
    where = value;
#endif
}

// What a kernel's `return` returns: it tells the engine that the thread leaves, rather than comes to the end.
__attribute__((always_inline)) inline void leave() { store(self()->leaves, 1); }

// How the threads of a block run: one after the other; with stacks of their own, so that they can wait; or in loops that
// the kernel's own text has, from barrier to barrier (thread_loops.py), so that it is called once for a block.
enum Way { FREE, FIBRES, LOOPS };

// What those loops call: whose turn it is, and the variables that are kept from one of them to the next.
__attribute__((always_inline)) inline void enter_row(unsigned y, unsigned z) {
    Worker* worker = self();
    store(worker->threadIdx.y, y);
    store(worker->threadIdx.z, z);
}
__attribute__((always_inline)) inline void enter_thread(unsigned x) { store(self()->threadIdx.x, x); }
__attribute__((always_inline)) inline void enter_linear_thread(unsigned thread) { store(self()->thread, thread); }
// x % by, where that is the same for all threads: so the compiler asks before the loop whether it is a power of two.
template <class A, class B> __attribute__((always_inline)) constexpr auto remainder(A x, B by) {
    if constexpr (IsInteger<A>::value && IsInteger<B>::value) {
        typedef decltype(x % by) T;
        const T d = (T)by, whole = (T)x;
        if (d <= 0 || d & (d - 1)) return (T)(whole % d);
        const T rest = (T)(whole & (d - 1));
        return (T)(whole < 0 && rest ? rest - d : rest);
    } else {
        return x % by;
    }
}
CUPLUG_SILENT inline void pass_barrier() { self()->api->pass_barrier(); }
template <class T, cuplug_size most> inline void check_kept() {
    static_assert(sizeof(T) <= most && __is_trivially_copyable(T), "cuplug: too much to keep for each thread");
}
#if CUPLUG_CHECKED
template <class T> __attribute__((always_inline)) inline T kept(const T& where) {
    if constexpr (sizeof(T) == 4) return __builtin_bit_cast(T, load(*(const cuplug_u32*)&where));
    else return where;
}
template <class T> __attribute__((always_inline)) inline void keep(T& where, T value) {
    if constexpr (sizeof(T) == 4) store(*(cuplug_u32*)&where, __builtin_bit_cast(cuplug_u32, value));
    else where = value;
}
#else
template <class T> __attribute__((always_inline)) inline T kept(const T& where) { return where; }
template <class T> __attribute__((always_inline)) inline void keep(T& where, T value) { where = value; }
#endif

template <auto K, Way way, bool tracked> struct Entry {
    static_assert(tracked && !tracked, "a __global__ function must return void");
    typedef Layout<> L;
    static void run(Worker*);
};

template <class... A, void (*K)(uint3, uint3, dim3, dim3, A...), Way way, bool tracked>
struct Entry<K, way, tracked> {
    typedef Layout<typename Plain<A>::type...> L;

    __attribute__((always_inline)) static inline uint3 peek(const Dim& d) { return {load(d.x), load(d.y), load(d.z)}; }
    __attribute__((always_inline)) static inline dim3 peek_size(const Dim& d) { return {load(d.x), load(d.y), load(d.z)}; }

    // Without barriers: a loop over the threads of a row, with the kernel inlined into it. Apart from the loops over
    // rows, so that it has the registers to itself.
    __attribute__((noinline)) static void row(Worker* worker, unsigned y, unsigned z, A... arguments) {
        const uint3 block = peek(worker->blockIdx);
        const dim3 size = peek_size(worker->blockDim), grid = peek_size(worker->gridDim);
        for (unsigned x = 0; x < size.x; ++x) {
            if (tracked) store(worker->threadIdx.x, x);
#if CUPLUG_RACES
            store(worker->thread, (z * size.y + y) * size.x + x);
#endif
            K(uint3{x, y, z}, block, size, grid, arguments...);
        }
    }

    __attribute__((always_inline)) static inline void loop(Worker* worker, A... arguments) {
        const dim3 size = peek_size(worker->blockDim);
        for (unsigned z = 0; z < size.z; ++z)
            for (unsigned y = 0; y < size.y; ++y) {
                store(worker->threadIdx.y, y);
                store(worker->threadIdx.z, z);
                row(worker, y, z, arguments...);
            }
    }

    CUPLUG_SILENT static bool begin_next(Worker* worker) {
        if (worker->next_thread >= worker->thread_count) return false;
        worker->api->begin_thread(worker->next_thread);
        return true;
    }
    CUPLUG_SILENT static void end(Worker* worker) { worker->api->end_thread(); }

    // With barriers: the threads that this stack begins, until none is left to begin.
    __attribute__((always_inline)) static inline void threads(Worker* worker, A... arguments) {
        const uint3 block = peek(worker->blockIdx);
        const dim3 size = peek_size(worker->blockDim), grid = peek_size(worker->gridDim);
        while (begin_next(worker)) {
            K(peek(worker->threadIdx), block, size, grid, arguments...);
            end(worker);
        }
    }

    template <cuplug_u32... I> static inline void unpack(Worker* worker, Indices<I...>) {
        const char* p = worker->parameters;
        if constexpr (way == LOOPS)
            K(uint3{0, 0, 0}, peek(worker->blockIdx), peek_size(worker->blockDim), peek_size(worker->gridDim),
              *(const typename Plain<A>::type*)(p + L::table.parameters[I].offset)...);
        else if constexpr (way == FIBRES)
            threads(worker, *(const typename Plain<A>::type*)(p + L::table.parameters[I].offset)...);
        else
            loop(worker, *(const typename Plain<A>::type*)(p + L::table.parameters[I].offset)...);
    }

    static void run(Worker* worker) { unpack(worker, typename MakeIndices<sizeof...(A)>::type()); }
};

template <class T> struct IsConst { static constexpr bool value = false; };
template <class T> struct IsConst<const T> { static constexpr bool value = true; };
template <class T> struct IsConst<const volatile T> { static constexpr bool value = true; };
template <class T, cuplug_size N> struct IsConst<T[N]> { static constexpr bool value = IsConst<T>::value; };
template <class T, cuplug_size N> struct IsConst<const T[N]> { static constexpr bool value = true; };
template <auto K, Way way, bool tracked> struct Describe {
    typedef Entry<K, way, tracked> E;
    static constexpr Kernel make(const char* name, cuplug_u32 max_threads, cuplug_u32 habits) {
        return {name, &E::run, E::L::table.parameters, E::L::count, E::L::table.nbytes, way == FIBRES, max_threads, habits};
    }
};

// Where the module lies in memory, by the linker's symbols.
extern "C" __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];

}  // namespace __cuplug
