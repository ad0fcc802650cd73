/* Variables that are written before the first block and never after: options, size classes, where
 * the heap lies, secrets. They have pages of their own, which hardened mode makes read-only, so
 * that no wild write of the program's can change by what a pointer is judged. Reading them costs
 * the same as ever.
 *
 *   .data | hak_frozen: os, span, slab, modes, ... | one byte of padding | .bss
 *           ^ page                                 ^ page
 */
#ifndef HAK_OS_FROZEN_H
#define HAK_OS_FROZEN_H

#include "base/base.h"

#define HAK_FROZEN_SECTION "hak_frozen"
#define hak_frozen __attribute__((section(HAK_FROZEN_SECTION)))

/* From here on whoever writes to them faults. Once, by the thread that starts the allocator. Does
 * nothing where pages are larger than those the section was made for (4 KiB). */
void os_freeze(void);

#endif
