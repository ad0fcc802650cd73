/* An extension of sqlite3 with a bug in it: planted('after-free') and planted('behind') touch a
 * block as they must not, in a way that harms nobody who does not look: the first reads a freed
 * block, the second the byte behind one; planted('beyond') the one behind the next multiple of 16.
 * planted('none') has no bug. Two more arguments say how many bytes a block has, and of how many
 * blocks in use at a time each is touched.
 *
 *   sqlite3 :memory: ".load ./libplanted" "select planted('behind'), planted('none', 208, 300)" */
#include <sqlite3ext.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT1

enum { BLOCK_BYTES = 48, BLOCKS_MAX = 1000 };

struct plan {
    const char *bug;
    int block_bytes, blocks;
};

/* What the compiler must not see through. */
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static int read_at(const volatile char *block, int offset) { return block[offset]; }

static int read_each(char *const *blocks, int count, int offset) {
    int bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += read_at(blocks[i], offset);
    return bytes;
}

static int touch(struct plan plan) {
    static char *blocks[BLOCKS_MAX];
    int bytes = 0;
    int count = 0;
    while (count < plan.blocks && (blocks[count] = take((size_t)plan.block_bytes)) != NULL)
        count++;
    if (strcmp(plan.bug, "behind") == 0)
        bytes += read_each(blocks, count, plan.block_bytes);
    if (strcmp(plan.bug, "beyond") == 0)
        bytes += read_each(blocks, count, (plan.block_bytes + 15) / 16 * 16);
    for (int i = 0; i < count; i++)
        give(blocks[i]);
    if (strcmp(plan.bug, "after-free") == 0)
        bytes += read_each(blocks, count, plan.block_bytes / 2);
    return bytes;
}

static int number(int index, int count, sqlite3_value **values, int otherwise) {
    return index < count ? sqlite3_value_int(values[index]) : otherwise;
}

static void planted(sqlite3_context *context, int count, sqlite3_value **values) {
    struct plan plan = {
        .bug = count != 0 ? (const char *)sqlite3_value_text(values[0]) : NULL,
        .block_bytes = number(1, count, values, BLOCK_BYTES),
        .blocks = number(2, count, values, 1),
    };
    if (plan.bug == NULL || plan.block_bytes <= 0 || plan.blocks > BLOCKS_MAX) {
        sqlite3_result_error(context, "planted(BUG[, BYTES[, BLOCKS]])", -1);
        return;
    }
    touch(plan);
    sqlite3_result_int(context, 1);
}

__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *db, char **error,
                                                                  const sqlite3_api_routines *api);
int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *api) {
    (void)error;
    SQLITE_EXTENSION_INIT2(api)
    return sqlite3_create_function(db, "planted", -1, SQLITE_UTF8, NULL, planted, NULL, NULL);
}
