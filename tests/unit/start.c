/* The layers from os to slab without a front: nothing else allocates from them,
 * so a test knows all that there is in them. */
#include "support.h"

#include "os/memory.h"
#include "os/options.h"
#include "slab/slab.h"
#include "span/arena.h"
#include "span/window.h"

static bool populates;

static bool ask_kernel(void) {
    char *start = os_map_aligned(SLAB_BYTES, SLAB_BYTES);
    assert_non_null(start);
    bool does = os_populate(start, SLAB_BYTES) &&
                os_resident_pages(start, SLAB_BYTES) == SLAB_BYTES / os_page_size();
    os_unmap(start, SLAB_BYTES);
    return does;
}

bool kernel_populates(void) { return populates; }

void start_layers(const char *options, size_t window_bytes) {
    start_os(options);
    assert_true(slab_init((unsigned)hak_options.shards));
    assert_true(window_init(window_bytes, 1));
    arena_init();
    span_init((unsigned)hak_options.shards);
    classes_init();
    populates = ask_kernel();
}
