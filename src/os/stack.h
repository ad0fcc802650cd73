/* Where a call came from, for reports. See stack.c. */
#ifndef HAK_OS_STACK_H
#define HAK_OS_STACK_H

#include "base/base.h"
#include "base/format.h"

enum { OS_STACK_FRAMES = 24 };

struct os_stack {
    uint32_t thread;                   /* the kernel's number of it */
    uint32_t depth;                    /* of frames; 0: not known */
    uintptr_t frames[OS_STACK_FRAMES]; /* return addresses, the innermost first: what was called
                                          lies just before */
};

/* The library is loaded, and no lock is held: in a program without a dynamic linker stacks are
 * unknown until then, and after os_stack_forget, at exit. At fixed addresses they stay unknown
 * unless they may be sorted, which takes a millisecond or two, and malloc. */
void os_stack_loaded(bool may_sort);
void os_stack_forget(void);

/* The calling thread's, HAKMEM's own frames left out. Does not allocate, and takes no lock
 * where the C library has _dl_find_object (glibc 2.35). Some microseconds. */
void os_stack_capture(struct os_stack *stack);

/* The same in a handler of a signal that an instruction at counter has raised: from there on. */
void os_stack_capture_from(struct os_stack *stack, uintptr_t counter);

/* Adds "function+0x1f (object+0x11f)" to a text, or what is known of it. For reports that end
 * the process: may wait for the dynamic linker's lock. */
void os_stack_describe(uintptr_t frame, struct format_buffer *out);

/* Prints a line a frame on standard error. For the same. */
void os_stack_print_frames(const struct os_stack *stack);

/* Prints "hakmem:   TITLE by thread 71:" and the frames. */
void os_stack_print(const char *title, const struct os_stack *stack);

#endif
