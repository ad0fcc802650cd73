/* glibc's own calls under their names: malloc_trim(3), mallopt(3), mallinfo(3),
 * malloc_info(3), malloc_stats(3). Other C libraries declare none of them, and have no
 * structures for some. */

#include <malloc.h>

#include "abi/interface.h"
#include "hakmem/hakmem.h"
#include "os/system.h"

#ifndef __GLIBC__
int malloc_trim(size_t pad);
int mallopt(int param, int value);
void malloc_stats(void);
#endif

HAK_EXPORT int malloc_trim(size_t pad) {
    (void)pad;
    return front_purge() != 0;
}

HAK_EXPORT int mallopt(int param, int value) {
    (void)param;
    (void)value;
    return 1;
}

HAK_EXPORT void malloc_stats(void) { abi_stats_write(OS_STANDARD_ERROR, false); }

#ifdef __GLIBC__
HAK_EXPORT struct mallinfo2 mallinfo2(void) { return hak_mallinfo2(); }
HAK_EXPORT struct mallinfo mallinfo(void) { return hak_mallinfo(); }
HAK_EXPORT int malloc_info(int options, FILE *stream) { return hak_malloc_info(options, stream); }
#endif
