/* glibc's summaries of the heap: mallinfo(3), mallinfo2(3), malloc_info(3). Left
 * out where the C library has no such structures. */
#include <errno.h>
#include <limits.h>
#include <malloc.h>

#include "abi/figures.h"
#include "front/front.h"
#include "hakmem/hakmem.h"

#ifdef __GLIBC__

struct mallinfo2 hak_mallinfo2(void) {
    struct mallinfo2 info = {0};
    if (!front_start())
        return info;
    struct figures f = figures_gather();
    info.arena = f.arena.committed_bytes;
    info.hblks = f.huge.count;
    info.hblkhd = f.huge.bytes;
    info.uordblks = f.live_bytes;
    info.fordblks = info.arena + info.hblkhd - hak_min(f.live_bytes, info.arena + info.hblkhd);
    info.ordblks = f.spans.super_count;
    info.keepcost = f.spans.dirty_bytes + f.arena.dirty_bytes;
    return info;
}

static int saturated(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

struct mallinfo hak_mallinfo(void) {
    struct mallinfo2 wide = hak_mallinfo2();
    return (struct mallinfo){
        .arena = saturated(wide.arena),
        .ordblks = saturated(wide.ordblks),
        .hblks = saturated(wide.hblks),
        .hblkhd = saturated(wide.hblkhd),
        .uordblks = saturated(wide.uordblks),
        .fordblks = saturated(wide.fordblks),
        .keepcost = saturated(wide.keepcost),
    };
}

int hak_malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    if (!front_start())
        return -1;
    struct figures f = figures_gather();
    struct mallinfo2 info = hak_mallinfo2();
    fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (unsigned class = 1; class < CLASS_COUNT; ++class) {
        const struct class_stats *c = &f.classes[class];
        if (c->taken != 0)
            fprintf(stream, "  <size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n",
                    class_size(class - 1) + 1, class_size(class),
                    (size_t)(c->taken - c->given) * class_size(class),
                    (size_t)(c->taken - c->given));
    }
    fprintf(stream, "</sizes>\n</heap>\n");
    fprintf(stream, "<total type=\"fast\" count=\"0\" size=\"0\"/>\n");
    fprintf(stream, "<total type=\"large\" count=\"%zu\" size=\"%zu\"/>\n", f.spans.large_count,
            f.spans.large_bytes);
    fprintf(stream, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", f.huge.count,
            f.huge.bytes);
    fprintf(stream, "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", info.ordblks,
            info.fordblks);
    fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n", f.mapped_bytes);
    fprintf(stream, "<system type=\"max\" size=\"%zu\"/>\n",
            f.arena.committed_bytes + f.huge.peak_bytes);
    fprintf(stream, "<aspace type=\"mprotect\" size=\"%zu\"/>\n", f.mapped_bytes);
    fprintf(stream, "<aspace type=\"total\" size=\"%zu\"/>\n</malloc>\n",
            f.arena.reserved_bytes + f.huge.bytes);
    return 0;
}

#endif
