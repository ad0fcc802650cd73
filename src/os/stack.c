/* Walking the stack with the compiler's own unwinder.
 *
 * Programs are compiled without frame pointers, so only unwind tables tell where a frame's
 * return address lies. The unwinder that C++ exceptions use reads them; it is linked
 * into this library (libgcc_eh), so no other library has to be loaded at a time when malloc
 * must not be called. Where the toolchain has none for this C library, stacks are not known.
 *
 * HAKMEM's own frames come first and say nothing to the program's author. In a shared library
 * they are those between its first byte and the end of its code. In a program that links HAKMEM
 * statically that would be all, and they stay.
 *
 * Tables are found through an index that the linker makes, and that the C library knows of. Without
 * a dynamic linker it does so only after its own first calls of malloc. A program at fixed
 * addresses has start-up code (crtbeginT.o) that tells the unwinder of all frames instead, index or
 * not, and at its first use the unwinder (of gcc before 13) sorts them, which takes memory from
 * malloc while it holds a lock. A malloc that walked the stack then would wait for itself; and so
 * would the free at exit, where what was sorted goes. So in programs without a dynamic linker
 * stacks are walked from the time on when somebody says that the library is loaded, and until exit.
 */
#include "os/stack.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/system.h"

#if HAK_HAS_UNWINDER
#include <unwind.h>

/* Put there by the linker. */
extern const char __ehdr_start[] __attribute__((visibility("hidden")));
extern const char etext[] __attribute__((visibility("hidden")));

static bool is_within_object(uintptr_t address) {
    return address - (uintptr_t)__ehdr_start < (uintptr_t)etext - (uintptr_t)__ehdr_start;
}

struct walk {
    struct os_stack *stack;
    bool skips_own; /* so far all frames were HAKMEM's */
};

static _Unwind_Reason_Code visit(struct _Unwind_Context *context, void *argument) {
    struct walk *walk = argument;
    uintptr_t address = _Unwind_GetIP(context);
    if (address == 0 || walk->stack->depth == OS_STACK_FRAMES)
        return _URC_END_OF_STACK;
    walk->skips_own = walk->skips_own && is_within_object(address);
    if (!walk->skips_own)
        walk->stack->frames[walk->stack->depth++] = address;
    return _URC_NO_REASON;
}

static void walk_stack(struct os_stack *stack) {
    bool is_shared = !is_within_object(getauxval(AT_PHDR));
    struct walk walk = {.stack = stack, .skips_own = is_shared};
    _Unwind_Backtrace(visit, &walk);
}
#else
static void walk_stack(struct os_stack *stack) { (void)stack; }
#endif

static _Atomic bool is_ready; /* in a program without a dynamic linker */

/* Only programs that can be moved have a dynamic section; their start-up code tells of nothing. */
static bool has_fixed_addresses(void) {
    const ElfW(Phdr) *headers =
        (const void *)getauxval(AT_PHDR); // NOLINT(performance-no-int-to-ptr)
    size_t count = getauxval(AT_PHNUM);
    for (size_t i = 0; i < count; i++) {
        if (headers[i].p_type == PT_DYNAMIC)
            return false;
    }
    return true;
}

void os_stack_loaded(bool may_sort) {
    struct os_stack stack = {0};
    if (os_has_dynamic_linker() || atomic_load_explicit(&is_ready, memory_order_relaxed))
        return;
    if (has_fixed_addresses()) {
        if (!may_sort)
            return;
        walk_stack(&stack);
    }
    /* Pairs with the acquire in os_stack_capture: what was sorted is seen, too. */
    atomic_store_explicit(&is_ready, true, memory_order_release);
}

void os_stack_forget(void) { atomic_store_explicit(&is_ready, false, memory_order_relaxed); }

void os_stack_capture(struct os_stack *stack) {
    stack->thread = (uint32_t)syscall(SYS_gettid);
    stack->depth = 0;
    if (os_has_dynamic_linker() || atomic_load_explicit(&is_ready, memory_order_acquire))
        walk_stack(stack);
}

void os_stack_capture_from(struct os_stack *stack, uintptr_t counter) {
    os_stack_capture(stack);
    unsigned first = 0;
    while (first < stack->depth && stack->frames[first] != counter)
        first++;
    if (first == stack->depth) /* the frames of the handler are better than none */
        return;
    stack->depth -= first;
    memmove(stack->frames, stack->frames + first, stack->depth * sizeof stack->frames[0]);
    stack->frames[0]++; /* as if it returned there: who reads a stack looks just before */
}

void os_stack_describe(uintptr_t frame, struct format_buffer *out) {
    Dl_info info;
    /* The call, not what follows it, which may be another function. */
    if (frame == 0 ||
        dladdr((const void *)(frame - 1), &info) == 0) { // NOLINT(performance-no-int-to-ptr)
        format_text(out, "(unknown)");
        return;
    }
    if (info.dli_sname != NULL)
        format_add(out, "%s+0x%lx ", info.dli_sname,
                   (unsigned long)(frame - (uintptr_t)info.dli_saddr));
    format_add(out, "(%s+0x%lx)", info.dli_fname,
               (unsigned long)(frame - (uintptr_t)info.dli_fbase));
}

enum { LINE_BYTES = 400 };

void os_stack_print_frames(const struct os_stack *stack) {
    for (unsigned i = 0; i < stack->depth; i++) {
        char text[LINE_BYTES];
        struct format_buffer line = format_begin(text, sizeof text - 1);
        os_stack_describe(stack->frames[i], &line);
        text[line.length] = '\0';
        hak_warn("    #%u 0x%lx %s", i, (unsigned long)stack->frames[i], text);
    }
}

void os_stack_print(const char *title, const struct os_stack *stack) {
    hak_warn("  %s by thread %u:", title, stack->thread);
    os_stack_print_frames(stack);
}
