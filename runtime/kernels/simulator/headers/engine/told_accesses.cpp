// For kernels compiled with check="races": every access tells the engine, by the calls that ThreadSanitizer's
// instrumentation makes. Their names and meanings are those of its interface (compiler-rt, tsan_interface.h). Compiled
// once, without that instrumentation, and linked to every such module.
#include "../strips.h"

#define CUPLUG_HOOK __attribute__((visibility("hidden")))
// Parameters lie in the worker, which is nobody else's.
#define CUPLUG_TOUCH(p, n, kind)                                                                                    \
    if (const __cuplug::Worker* worker = __cuplug::self(); (cuplug_u64)(p) - (cuplug_u64)worker >= __cuplug::USED)   \
        worker->api->touch((cuplug_u64)(p), (cuplug_u32)(n), (kind), (cuplug_u64)__builtin_return_address(0) - 1)
// The engine is called last of all, so that nothing need be kept for behind it.
#define CUPLUG_PLAIN(name, n, writes, Threads)                                                                                 \
    CUPLUG_HOOK void name(void* p) {                                                           \
        const cuplug_u64 code = (cuplug_u64)__builtin_return_address(0);                                                       \
        if (__builtin_expect(__cuplug::is_quiet<n, writes, Threads>((cuplug_u64)p, code), 1)) return;                          \
        __cuplug::self()->api->touch((cuplug_u64)p, n, writes ? __cuplug::TOUCH_WRITE : __cuplug::TOUCH_READ, code - 1);       \
    }
#define CUPLUG_HOOKS(n)                                                                                                        \
    CUPLUG_HOOK void __tsan_unaligned_read##n(void* p) { CUPLUG_TOUCH(p, n, __cuplug::TOUCH_READ); }                            \
    CUPLUG_HOOK void __tsan_unaligned_write##n(void* p) { CUPLUG_TOUCH(p, n, __cuplug::TOUCH_WRITE); }                          \
    CUPLUG_HOOK void __tsan_volatile_read##n(void* p) {                                                                        \
        CUPLUG_TOUCH(p, n, __cuplug::TOUCH_READ | __cuplug::TOUCH_ATOMIC | __cuplug::TOUCH_VOLATILE);                           \
    }                                                                                                                          \
    CUPLUG_HOOK void __tsan_volatile_write##n(void* p) {                                                                       \
        CUPLUG_TOUCH(p, n, __cuplug::TOUCH_WRITE | __cuplug::TOUCH_ATOMIC | __cuplug::TOUCH_VOLATILE);                          \
    }                                                                                                                          \
    CUPLUG_HOOK void __tsan_unaligned_volatile_read##n(void* p) {                                                              \
        CUPLUG_TOUCH(p, n, __cuplug::TOUCH_READ | __cuplug::TOUCH_ATOMIC | __cuplug::TOUCH_VOLATILE);                           \
    }                                                                                                                          \
    CUPLUG_HOOK void __tsan_unaligned_volatile_write##n(void* p) {                                                             \
        CUPLUG_TOUCH(p, n, __cuplug::TOUCH_WRITE | __cuplug::TOUCH_ATOMIC | __cuplug::TOUCH_VOLATILE);                          \
    }
#define CUPLUG_KIND(order, kind) ((kind) | __cuplug::TOUCH_ATOMIC | ((order) >= __ATOMIC_CONSUME ? __cuplug::TOUCH_ORDERED : 0u))
#define CUPLUG_CHANGE(T, bits, name, builtin)                                                                        \
    CUPLUG_HOOK T __tsan_atomic##bits##_##name(volatile void* p, T value, int order) {                               \
        CUPLUG_TOUCH(p, sizeof(T), CUPLUG_KIND(order, __cuplug::TOUCH_READ | __cuplug::TOUCH_WRITE));                \
        return builtin((volatile T*)p, value, __ATOMIC_SEQ_CST);                                                                  \
    }
#define CUPLUG_EXCHANGE(T, bits, name)                                                                                         \
    CUPLUG_HOOK bool __tsan_atomic##bits##_compare_exchange_##name(volatile void* p, void* expected, T value, int order, int) {       \
        CUPLUG_TOUCH(p, sizeof(T), CUPLUG_KIND(order, __cuplug::TOUCH_READ | __cuplug::TOUCH_WRITE));                          \
        return __atomic_compare_exchange_n((volatile T*)p, (T*)expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                     \
    }
#define CUPLUG_EXCHANGE_BY_VALUE(T, bits)  /* clang's */                                                             \
    CUPLUG_HOOK T __tsan_atomic##bits##_compare_exchange_val(volatile void* p, T expected, T value, int order, int) { \
        CUPLUG_TOUCH(p, sizeof(T), CUPLUG_KIND(order, __cuplug::TOUCH_READ | __cuplug::TOUCH_WRITE));                \
        __atomic_compare_exchange_n((volatile T*)p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);    \
        return expected;                                                                                             \
    }
#define CUPLUG_ATOMICS(T, bits)                                                                                      \
    CUPLUG_HOOK T __tsan_atomic##bits##_load(const volatile void* p, int order) {                                       \
        CUPLUG_TOUCH(p, sizeof(T), CUPLUG_KIND(order, __cuplug::TOUCH_READ));                                        \
        return __atomic_load_n((const volatile T*)p, __ATOMIC_SEQ_CST);                                                                 \
    }                                                                                                                \
    CUPLUG_HOOK void __tsan_atomic##bits##_store(volatile void* p, T value, int order) {                                \
        CUPLUG_TOUCH(p, sizeof(T), CUPLUG_KIND(order, __cuplug::TOUCH_WRITE));                                       \
        __atomic_store_n((volatile T*)p, value, __ATOMIC_SEQ_CST);                                                                \
    }                                                                                                                \
    CUPLUG_CHANGE(T, bits, exchange, __atomic_exchange_n)                                                            \
    CUPLUG_CHANGE(T, bits, fetch_add, __atomic_fetch_add)                                                            \
    CUPLUG_CHANGE(T, bits, fetch_sub, __atomic_fetch_sub)                                                            \
    CUPLUG_CHANGE(T, bits, fetch_and, __atomic_fetch_and)                                                            \
    CUPLUG_CHANGE(T, bits, fetch_or, __atomic_fetch_or)                                                              \
    CUPLUG_CHANGE(T, bits, fetch_xor, __atomic_fetch_xor)                                                            \
    CUPLUG_EXCHANGE(T, bits, strong)                                                                                 \
    CUPLUG_EXCHANGE(T, bits, weak)                                                                                   \
    CUPLUG_EXCHANGE_BY_VALUE(T, bits)
extern "C" {
CUPLUG_HOOKS(1)
CUPLUG_HOOKS(2)
CUPLUG_HOOKS(4)
CUPLUG_HOOKS(8)
CUPLUG_HOOKS(16)
CUPLUG_PLAIN(__tsan_read4, 4, false, unsigned short)
CUPLUG_PLAIN(__tsan_read8, 8, false, cuplug_u32)
CUPLUG_PLAIN(__tsan_read16, 16, false, cuplug_u64)
CUPLUG_PLAIN(__tsan_write4, 4, true, unsigned short)
CUPLUG_PLAIN(__tsan_write8, 8, true, cuplug_u32)
CUPLUG_PLAIN(__tsan_write16, 16, true, cuplug_u64)
CUPLUG_HOOK void __tsan_read1(void* p) { CUPLUG_TOUCH(p, 1, __cuplug::TOUCH_READ); }
CUPLUG_HOOK void __tsan_read2(void* p) { CUPLUG_TOUCH(p, 2, __cuplug::TOUCH_READ); }
CUPLUG_HOOK void __tsan_write1(void* p) { CUPLUG_TOUCH(p, 1, __cuplug::TOUCH_WRITE); }
CUPLUG_HOOK void __tsan_write2(void* p) { CUPLUG_TOUCH(p, 2, __cuplug::TOUCH_WRITE); }
CUPLUG_ATOMICS(unsigned char, 8)
CUPLUG_ATOMICS(unsigned short, 16)
CUPLUG_ATOMICS(unsigned int, 32)
CUPLUG_ATOMICS(unsigned long, 64)
CUPLUG_HOOK void __tsan_read_range(void* p, long n) { CUPLUG_TOUCH(p, n, __cuplug::TOUCH_READ); }
CUPLUG_HOOK void __tsan_write_range(void* p, long n) { CUPLUG_TOUCH(p, n, __cuplug::TOUCH_WRITE); }
CUPLUG_HOOK void __tsan_vptr_update(void*, void*) {}
CUPLUG_HOOK void __tsan_vptr_read(void*) {}
CUPLUG_HOOK void __tsan_atomic_thread_fence(int) { __cuplug::self()->api->fence(); }
CUPLUG_HOOK void __tsan_atomic_signal_fence(int) {}
CUPLUG_HOOK void __tsan_func_entry(void*) {}
CUPLUG_HOOK void __tsan_func_exit(void*) {}
CUPLUG_HOOK void __tsan_init() {}
}
