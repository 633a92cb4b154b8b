// The memory that kernels allocate by malloc and new. It lives until a kernel frees it, across launches.
#pragma once

#include "races.h"

static cuplug_u64 heap_nbytes = 8 << 20;  // as cudaLimitMallocHeapSize is by default
constexpr cuplug_u64 HEAP_MAGIC = 0x70616568676c7063ull;

// Lies before every piece, out of the kernels' reach.
struct Piece {
    cuplug_u64 nbytes, magic;
};

static pthread_mutex_t heap_lock = PTHREAD_MUTEX_INITIALIZER;
static cuplug_u64 heap_used = 0;

static void* allocate(cuplug_u64 nbytes) {
    if (!nbytes || nbytes > heap_nbytes) return nullptr;
    CalledByKernel guard((State*)self());
    pthread_mutex_lock(&heap_lock);
    Piece* piece = nullptr;
    if (heap_used + nbytes <= heap_nbytes && (piece = (Piece*)malloc(sizeof(Piece) + nbytes + 16))) {
        heap_used += nbytes;
        *piece = {nbytes, HEAP_MAGIC};
        shadow::change({(cuplug_u64)(piece + 1), nbytes}, true);
        if (((State*)self())->launch->races) races::forget((cuplug_u64)(piece + 1), nbytes);
    }
    pthread_mutex_unlock(&heap_lock);
    return piece ? memset(piece + 1, 0xCB, nbytes) : nullptr;  // not initialised
}

static void release(void* address) {
    if (!address) return;
    Piece* piece = (Piece*)address - 1;
    if ((cuplug_u64)address % 16 || piece->magic != HEAP_MAGIC)
        stop(FAULT_LAUNCH_FAILED, "free() or delete of an address that malloc() or new did not give, or that was freed before");
    CalledByKernel guard((State*)self());
    pthread_mutex_lock(&heap_lock);
    heap_used -= piece->nbytes;
    piece->magic = 0;
    if (((State*)self())->launch->races) races::forget((cuplug_u64)address, piece->nbytes);
    shadow::change({(cuplug_u64)address, piece->nbytes}, false);
    pthread_mutex_unlock(&heap_lock);
    free(piece);
}
