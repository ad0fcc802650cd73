/* The layers from os to slab without a front: nothing else allocates from them,
 * so a test knows all that there is in them. */
#include "support.h"

#include "os/options.h"
#include "slab/slab.h"
#include "span/arena.h"
#include "span/window.h"

void start_layers(const char *options, size_t window_bytes) {
    start_os(options);
    assert_true(slab_init((unsigned)hak_options.shards));
    assert_true(window_init(window_bytes, 1));
    arena_init();
    span_init((unsigned)hak_options.shards);
    classes_init();
}
