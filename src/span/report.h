/* What to say of a pointer that is not what it should be. See report.c. */
#ifndef HAK_SPAN_REPORT_H
#define HAK_SPAN_REPORT_H

#include "base/base.h"
#include "base/panic.h"

/* Ends the process with the report that fits a pointer in which no block of the
 * program starts. operation: what the program called, for people. */
_Noreturn void report_bad_pointer(const void *pointer, const char *operation);

/* For one that lies in a span of blocks of one class: where in it. is_free: the
 * block that covers it is free already. */
_Noreturn void report_bad_block(const void *pointer, const char *operation, const char *span_start,
                                size_t block_bytes, size_t capacity, bool is_free);

/* What a pointer into a block is that is not its start, and why it is that. */
enum hak_report_kind report_kind_inside(const void *pointer);
const char *report_why_inside(const void *pointer);

/* Whether a large block started here whose descriptor still tells how large it was. */
bool report_was_large(const void *pointer, size_t *bytes);

#endif
