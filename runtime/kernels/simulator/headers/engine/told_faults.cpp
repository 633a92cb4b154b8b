// For checked kernels: what the instrumentation of AddressSanitizer and UndefinedBehaviorSanitizer calls where an access
// is wrong. Their names and meanings are those of its interface. Compiled once, without that instrumentation, and linked
// to every such module: in each module it would take a quarter of the time that a small kernel takes to compile.
#include "../abi.h"

#define CUPLUG_HOOK __attribute__((visibility("hidden")))
// The instruction that called.
#define CUPLUG_CODE ((const char*)__builtin_return_address(0) - 1)
#define CUPLUG_REPORT(N)                                                                                             \
    CUPLUG_HOOK void __asan_report_load##N##_noabort(void* p) { __cuplug::self()->api->illegal_access((cuplug_u64)p, N, 0, CUPLUG_CODE); }  \
    CUPLUG_HOOK void __asan_report_store##N##_noabort(void* p) { __cuplug::self()->api->illegal_access((cuplug_u64)p, N, 1, CUPLUG_CODE); }
extern "C" {
CUPLUG_REPORT(1)
CUPLUG_REPORT(2)
CUPLUG_REPORT(4)
CUPLUG_REPORT(8)
CUPLUG_REPORT(16)
CUPLUG_HOOK void __asan_report_load_n_noabort(void* p, long n) { __cuplug::self()->api->illegal_access((cuplug_u64)p, (cuplug_u64)n, 0, CUPLUG_CODE); }
CUPLUG_HOOK void __asan_report_store_n_noabort(void* p, long n) { __cuplug::self()->api->illegal_access((cuplug_u64)p, (cuplug_u64)n, 1, CUPLUG_CODE); }
CUPLUG_HOOK void __asan_handle_no_return() {}
CUPLUG_HOOK void __asan_before_dynamic_init(const void*) {}
CUPLUG_HOOK void __asan_after_dynamic_init() {}

#if defined(__clang__)
// What copies of structures become: their whole range is checked.
CUPLUG_HOOK void cuplug_check_range(const void* p, cuplug_size n, int write, const void* code) {
    for (cuplug_u64 at = (cuplug_u64)p, end = at + n; at < end; at = (at | 7) + 1) {
        const signed char shadow = *(const signed char*)((at >> 3) + 0x18000);
        const cuplug_u64 last = end - 1 < (at | 7) ? end - 1 : at | 7;
        if (shadow && (signed char)(last & 7) >= shadow) __cuplug::self()->api->illegal_access((cuplug_u64)p, n, write, code);
    }
}
CUPLUG_HOOK void* __asan_memcpy(void* to, const void* from, cuplug_size n) {
    cuplug_check_range(from, n, 0, CUPLUG_CODE);
    cuplug_check_range(to, n, 1, CUPLUG_CODE);
    return __builtin_memcpy(to, from, n);
}
CUPLUG_HOOK void* __asan_memmove(void* to, const void* from, cuplug_size n) {
    cuplug_check_range(from, n, 0, CUPLUG_CODE);
    cuplug_check_range(to, n, 1, CUPLUG_CODE);
    return __builtin_memmove(to, from, n);
}
CUPLUG_HOOK void* __asan_memset(void* to, int value, cuplug_size n) {
    cuplug_check_range(to, n, 1, CUPLUG_CODE);
    return __builtin_memset(to, value, n);
}
#endif

// What the compiler passes when an address is not aligned as its type wants (libubsan's interface, version 1).
struct CuplugMismatch {
    const char* file;
    cuplug_u32 line, column;
    const struct { unsigned short kind, info; char name[1]; } * type;
    unsigned char log_alignment, check;
};
CUPLUG_HOOK void __ubsan_handle_type_mismatch_v1_abort(void* data, void* p) {
    const CuplugMismatch* m = (const CuplugMismatch*)data;
    __cuplug::self()->api->misaligned((cuplug_u64)p, 1ull << m->log_alignment, m->type->name, m->file, m->line);
}
}
