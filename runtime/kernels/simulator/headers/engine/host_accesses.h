// Memory that the program itself must not touch while kernels work with it: closed to this process meanwhile. Who touches it
// all the same is let in, and it is noted, for the next call that waits to tell.
#pragma once

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "../abi.h"

struct Closable {
    cuplug_u64 address, nbytes;  // whole pages; 0 bytes: an entry that is free
    volatile cuplug_u64 touched;
    volatile int closed;
};
constexpr int MOST_CLOSABLE = 1024;
static Closable closables[MOST_CLOSABLE];
static struct sigaction before_letting_in;

static void let_in(int number, siginfo_t* information, void* context) {
    const cuplug_u64 address = (cuplug_u64)information->si_addr;
    if (number == SIGSEGV && information->si_code == SEGV_ACCERR)
        for (Closable& it : closables)
            if (it.closed && address - it.address < it.nbytes) {
                if (!it.touched) it.touched = address;
                it.closed = 0;
                mprotect((void*)it.address, it.nbytes, PROT_READ | PROT_WRITE);
                return;
            }
    if (before_letting_in.sa_flags & SA_SIGINFO) before_letting_in.sa_sigaction(number, information, context);
    else if (before_letting_in.sa_handler == SIG_DFL) signal(number, SIG_DFL);  // and it comes again
    else if (before_letting_in.sa_handler != SIG_IGN) before_letting_in.sa_handler(number);
}

// Closes a range to the program, or opens it; an address at which it was touched since the last call for it, or 0.
static cuplug_u64 close_or_open(cuplug_u64 address, cuplug_u64 nbytes, int closed) {
    static bool watching = false;
    Closable *found = nullptr, *unused = nullptr;
    for (Closable& it : closables) {
        if (it.nbytes && it.address == address) found = &it;
        if (!it.nbytes && !unused) unused = &it;
    }
    if (!found) {
        if (!closed || !unused) return 0;  // more than can be kept stay open
        found = unused;
        found->address = address;
        found->nbytes = nbytes;
    }
    if (closed && !watching) {
        struct sigaction ours;
        memset(&ours, 0, sizeof ours);
        ours.sa_sigaction = let_in;
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        watching = !sigaction(SIGSEGV, &ours, &before_letting_in);
    }
    const cuplug_u64 touched = found->touched;
    found->touched = 0;
    if (closed && watching) {
        found->closed = 1;
        if (mprotect((void*)address, nbytes, PROT_NONE)) found->closed = 0;
    } else if (found->closed) {
        found->closed = 0;
        mprotect((void*)address, nbytes, PROT_READ | PROT_WRITE);
    }
    if (!closed) found->nbytes = 0;
    return touched;
}
