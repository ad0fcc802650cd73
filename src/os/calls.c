#include "os/calls.h"

#include <stdatomic.h>

static _Atomic uint64_t calls[OS_CALL_KINDS];

bool os_call_begins(enum os_call kind) {
    /* atomic: cold, telemetry; read in os_call_count, and orders nothing. */
    atomic_fetch_add_explicit(&calls[kind], 1, memory_order_relaxed);
    return os_test_refuses == NULL || !os_test_refuses(kind);
}

uint64_t os_call_count(enum os_call kind) {
    return atomic_load_explicit(&calls[kind], memory_order_relaxed);
}
