// Shared memory, loads and stores with cache hints, the heap, printf, traps and clocks.
#pragma once

// For what touches only the worker and the module's own, under the check of races: it tells nobody of it.
#if CUPLUG_RACES
#define CUPLUG_SILENT __attribute__((no_sanitize("thread"), no_sanitize("undefined"), noinline))
#else
#define CUPLUG_SILENT
#endif

namespace __cuplug {

inline cuplug_u32 slot_count = 0;
template <class T> struct SlotOf {
    static inline cuplug_u32 number = 0;
};

// Numbers a declaration when a thread first comes to it. (Nothing may be initialised when the module is loaded, since
// checked code cannot run before the engine has allowed the module's own memory.)
__attribute__((noinline, cold)) inline cuplug_u32 number_slot(cuplug_u32* number) {
    cuplug_u32 fresh = __atomic_add_fetch(&slot_count, 1, __ATOMIC_RELAXED), found = 0;
    if (fresh >= MAX_SLOTS) self()->api->stop(FAULT_RESOURCES, "too many shared variables in one module");
    return __atomic_compare_exchange_n(number, &found, fresh, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ? fresh : found;
}

// A block's instance of a `__shared__` declaration; T is the structure that translate.py makes of it.
template <class T> CUPLUG_SILENT inline T& shared() {
    static_assert(sizeof(T) <= 48 * 1024, "static shared memory is limited to 48 KiB; use extern __shared__");
    Worker* worker = self();
    cuplug_u32 number = __atomic_load_n(&SlotOf<T>::number, __ATOMIC_RELAXED);
    if (__builtin_expect(!number, 0)) number = number_slot(&SlotOf<T>::number);
    SharedSlot* slot = &worker->slots[number];
    if (__builtin_expect(slot->block != worker->block, 0)) {
        worker->api->shared(slot, sizeof(T), alignof(T));
#if CUPLUG_CHECKED
        slot->names = T::__cuplug_names();
#endif
    }
    return *(T*)slot->data;
}

#if CUPLUG_RACES
// One variable of a declaration of several, by itself: so that reaching beyond it is seen.
template <class S, int number, class V> struct OneShared {
    alignas(alignof(S)) V value;
    static const Named* __cuplug_names() {
        static constexpr Named all[] = {named<V>(S::__cuplug_name(number), 0), {}};
        return all;
    }
};

// An array that a function declares, between bytes that nobody may touch.
template <class S, int number, class V> struct Guarded {
    static constexpr cuplug_size beside = alignof(S) > 64 ? alignof(S) : 64;
    alignas(alignof(S) > 16 ? alignof(S) : 16) char before[beside];
    alignas(alignof(S)) V value;
    char behind[beside + 8];
    __attribute__((always_inline)) Guarded() {
        static constexpr Named about = named<V>(S::__cuplug_name(number), 0);
        self()->api->begin_local(before, beside, &about, __is_trivially_constructible(V));
    }
    __attribute__((always_inline)) ~Guarded() { self()->api->end_local(before, beside, sizeof(V)); }
};
#endif

inline char* dynamic_shared() { return self()->shared; }

}  // namespace __cuplug

#if CUPLUG_CHECKED
namespace __cuplug {
// A pointer that a cast has made and that is dereferenced at once.
template <class T> struct Whole {
    T* at;
    template <class P>
    __attribute__((always_inline)) explicit Whole(const P& pointer, int line = __builtin_LINE()) : at((T*)pointer) {
        if (__builtin_expect((cuplug_u64)at % alignof(T) != 0, 0))
            self()->api->misaligned((cuplug_u64)at, alignof(T), __PRETTY_FUNCTION__, "", (cuplug_u32)line);
    }
    __attribute__((always_inline)) T& operator*() const { return *at; }
};
}  // namespace __cuplug
#endif

#define CUPLUG_LOAD(name) \
    template <class T> inline T name(const T* address) { return *address; }
CUPLUG_LOAD(__ldg)
CUPLUG_LOAD(__ldca)
CUPLUG_LOAD(__ldcg)
CUPLUG_LOAD(__ldcs)
CUPLUG_LOAD(__ldcv)
CUPLUG_LOAD(__ldlu)
#undef CUPLUG_LOAD
#define CUPLUG_STORE(name) \
    template <class T> inline void name(T* address, T value) { *address = value; }
CUPLUG_STORE(__stwb)
CUPLUG_STORE(__stcg)
CUPLUG_STORE(__stcs)
CUPLUG_STORE(__stwt)
#undef CUPLUG_STORE

extern "C" {
void* memcpy(void*, const void*, size_t) noexcept;
void* memmove(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
}

// The heap of kernels.
extern "C" {
inline void* malloc(size_t nbytes) noexcept { return __cuplug::self()->api->allocate(nbytes); }
inline void free(void* address) noexcept { __cuplug::self()->api->release(address); }
[[noreturn]] inline void __cxa_pure_virtual() {
    __cuplug::self()->api->stop(__cuplug::FAULT_LAUNCH_FAILED, "a pure virtual function was called");
}
}
#if __has_include(<__new/placement_new_delete.h>) // libc++ defines them without asking whether they are there
#include <__new/placement_new_delete.h>
#else
inline void* operator new(size_t, void* place) noexcept { return place; }
inline void* operator new[](size_t, void* place) noexcept { return place; }
#endif
inline void* operator new(size_t nbytes) { return malloc(nbytes); }
inline void* operator new[](size_t nbytes) { return malloc(nbytes); }
inline void operator delete(void* address) noexcept { free(address); }
inline void operator delete[](void* address) noexcept { free(address); }
inline void operator delete(void* address, size_t) noexcept { free(address); }
inline void operator delete[](void* address, size_t) noexcept { free(address); }

__attribute__((format(printf, 1, 2))) inline int printf(const char* format, ...) {
    __builtin_va_list arguments;
    __builtin_va_start(arguments, format);
    int count = __cuplug::self()->api->print(format, arguments);
    __builtin_va_end(arguments);
    return count;
}

[[noreturn]] inline void __trap() {
    __cuplug::self()->api->stop(__cuplug::FAULT_LAUNCH_FAILED, "__trap() was called");
}
inline void __brkpt() { __trap(); }
inline void __prof_trigger(int) {}

namespace __cuplug {
inline unsigned long long globaltimer() {
    struct { long seconds, nanoseconds; } now;
    extern int __cuplug_clock_gettime(int, void*) asm("clock_gettime");
    __cuplug_clock_gettime(1, &now);
    return (unsigned long long)now.seconds * 1000000000ull + (unsigned long long)now.nanoseconds;
}
}  // namespace __cuplug
inline long long clock64() {
#if defined(__x86_64__)
    return (long long)__builtin_ia32_rdtsc();
#else
    return (long long)__cuplug::globaltimer();
#endif
}
typedef long clock_t;
inline clock_t clock() { return (clock_t)clock64(); }

// Which memory an address is in. There is one address space here, so that an address is the same in each.
namespace __cuplug {
inline bool of_worker(const void* address) { return ((cuplug_u64)address & ~(REGION - 1)) == (cuplug_u64)self(); }
// An address in shared memory. Programs keep these in 32 bits: what lies above is known, since all shared memory of a
// worker lies in its own region.
__attribute__((always_inline)) inline cuplug_u64 shared_address(cuplug_u64 address) {
    const cuplug_u64 region = (cuplug_u64)self();
    const cuplug_u64 offset = address >> 32 ? address ^ region : (cuplug_u32)(address ^ region);
    if (__builtin_expect(offset >= REGION, 0)) self()->api->illegal_access(address, 1, 0, nullptr);
    return region | offset;
}
inline bool of_shared(const void* address) {
    const cuplug_u64 offset = (cuplug_u64)address - (cuplug_u64)self()->shared;
    return of_worker(address) && offset < 256u << 10;
}
}  // namespace __cuplug
inline unsigned __isShared(const void* address) { return __cuplug::of_shared(address); }
inline unsigned __isLocal(const void* address) { return __cuplug::of_worker(address) && !__cuplug::of_shared(address); }
inline unsigned __isGlobal(const void* address) { return !__cuplug::of_worker(address); }
inline unsigned __isConstant(const void*) { return 0; }
#define CUPLUG_SPACE(space)                                                                            \
    inline size_t __cvta_generic_to_##space(const void* address) { return (size_t)address; }            \
    inline void* __cvta_##space##_to_generic(size_t address) { return (void*)address; }
CUPLUG_SPACE(global) CUPLUG_SPACE(local) CUPLUG_SPACE(constant)
inline size_t __cvta_generic_to_shared(const void* address) { return (size_t)address; }
inline void* __cvta_shared_to_generic(size_t address) { return (void*)__cuplug::shared_address(address); }
#undef CUPLUG_SPACE
