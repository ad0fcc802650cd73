/* An extension of sqlite3 with a bug in it: planted('after-free') and its like read from a block as
 * they must not, in a way that harms nobody who does not look: from a freed one, or up to 16 bytes
 * behind one, which may be of a size that is no multiple of 16.
 *
 *   sqlite3 :memory: ".load ./libplanted" "select planted('behind')" */
#include <sqlite3ext.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT1

static const struct bug {
    const char *name;
    size_t block_bytes;
    int offset;
    int is_freed;
} bugs[] = {
    {"after-free", 48, 24, 1},
    {"behind", 48, 48, 0},
    {"behind-odd", 100, 100, 0},
    {"behind-slack", 100, 112, 0},
};

/* What the compiler must not see through. */
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static int read_at(const volatile char *block, int offset) { return block[offset]; }

static int make(const struct bug *bug) {
    char *block = take(bug->block_bytes);
    if (block == NULL)
        return 0;
    if (bug->is_freed)
        give(block);
    int byte = read_at(block, bug->offset);
    if (!bug->is_freed)
        give(block);
    return byte;
}

static void planted(sqlite3_context *context, int count, sqlite3_value **values) {
    const char *name = count == 1 ? (const char *)sqlite3_value_text(values[0]) : NULL;
    for (size_t i = 0; name != NULL && i < sizeof bugs / sizeof bugs[0]; i++) {
        if (strcmp(name, bugs[i].name) == 0)
            make(&bugs[i]);
    }
    sqlite3_result_int(context, 1);
}

__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *db, char **error,
                                                                  const sqlite3_api_routines *api);
int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *api) {
    (void)error;
    SQLITE_EXTENSION_INIT2(api)
    return sqlite3_create_function(db, "planted", 1, SQLITE_UTF8, NULL, planted, NULL, NULL);
}
