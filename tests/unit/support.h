/* What the unit tests share: cmocka, chance, children that die as they should,
 * standard error on the side, and layers set up without a front. */
#ifndef HAK_TESTS_UNIT_SUPPORT_H
#define HAK_TESTS_UNIT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* splitmix64. */
uint64_t random_next(uint64_t *state);
/* 0 .. below - 1. */
size_t random_below(uint64_t *state, size_t below);

/* act in a child of its own must raise SIGABRT after one report on standard error
 * that starts with `report`; every one of the other texts up to NULL is in it. */
void assert_dies(void (*act)(void *context), void *context, const char *report, ...);

/* What act writes to standard error, terminated and cut to capacity. */
void catch_stderr(void (*act)(void *context), void *context, char *text, size_t capacity);

/* base and os, then everything up to slab, as front/thread.c does at its start:
 * with the options of a text, and a window of so many bytes at most. */
void start_os(const char *options);
void start_layers(const char *options, size_t window_bytes);

/* After that: whether os_populate makes pages resident. Emulators may take the advice and do
 * nothing. */
bool kernel_populates(void);

/* From here on the kernel refuses calls of one kind; OS_CALL_KINDS: of every
 * kind. Until allow_all. */
void refuse_kind(int kind);
void allow_all(void);
/* Refuses the call of a kind that comes after `granted` others. */
void refuse_after(int kind, unsigned granted);

#endif
