#include "os/frozen.h"

#include <sys/mman.h>

#include "os/calls.h"
#include "os/memory.h"

enum { FROZEN_PAGE_BYTES = 4096 };

/* The linker's, for a section whose name is one of C. */
hak_global char section_start[] __asm__("__start_" HAK_FROZEN_SECTION);
hak_global char section_end[] __asm__("__stop_" HAK_FROZEN_SECTION);
/* Read, not computed: then this code is the same in whatever order the library is linked. */
static char *const volatile section[] = {section_start, section_end};

/* Its alignment is the section's. This file is linked last (cmake/HakmemLibrary.cmake), so it has a
 * page to itself, which stays writable: the linker puts others' variables into its rest. */
hak_frozen _Alignas(FROZEN_PAGE_BYTES) __attribute__((used)) static char padding;

void os_freeze(void) {
    uintptr_t start = align_up((uintptr_t)section[0], os_page_size());
    uintptr_t end = align_down((uintptr_t)section[1], os_page_size());
    if (start < end && os_call_begins(OS_CALL_FREEZE))
        mprotect((void *)start, end - start, PROT_READ); // NOLINT(performance-no-int-to-ptr)
}
