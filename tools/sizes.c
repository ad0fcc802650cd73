/* Prints the sizes of the allocator's structures, for tools/scale.py. */
#include <stdio.h>

#include "cache/cache.h"
#include "span/shard.h"

#define SHOW(name, value) printf("%s %zu\n", name, (size_t)(value))

int main(void) {
    SHOW("slab", SLAB_BYTES);
    SHOW("super", SUPER_BYTES);
    SHOW("row", ROW_BYTES);
    SHOW("rows", ROW_COUNT);
    SHOW("classes", CLASS_COUNT - 1);
    SHOW("map_entry", sizeof *window_map);
    SHOW("super_pointer", sizeof *window_supers);
    SHOW("descriptor", sizeof(struct super));
    SHOW("descriptor_spans", offsetof(struct super, bitmaps));
    SHOW("pool", sizeof(struct pool));
    SHOW("pools", sizeof *pools);
    SHOW("span_shard", sizeof(struct span_shard));
    SHOW("max_shards", MAX_SHARDS);
    SHOW("cache", sizeof(struct cache));
    SHOW("thread", sizeof(struct thread));
    return 0;
}
