/* An extension of sqlite3 with a bug in it: planted('after-free') and planted('behind') touch a
 * block as they must not, in a way that harms nobody who does not look: the first reads a freed
 * block, the second the 16 bytes behind one.
 *
 *   sqlite3 :memory: ".load ./libplanted" "select planted('behind')" */
#include <sqlite3ext.h>
#include <stdlib.h>
#include <string.h>

SQLITE_EXTENSION_INIT1

enum { BLOCK_BYTES = 48 };

/* What the compiler must not see through. */
static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static int read_at(const volatile char *block, int offset) { return block[offset]; }

static int touch(int is_freed) {
    char *block = take(BLOCK_BYTES);
    if (block == NULL)
        return 0;
    if (is_freed)
        give(block);
    int byte = read_at(block, is_freed ? BLOCK_BYTES / 2 : BLOCK_BYTES);
    if (!is_freed)
        give(block);
    return byte;
}

static void planted(sqlite3_context *context, int count, sqlite3_value **values) {
    const char *bug = count == 1 ? (const char *)sqlite3_value_text(values[0]) : NULL;
    if (bug != NULL)
        touch(strcmp(bug, "after-free") == 0);
    sqlite3_result_int(context, 1);
}

__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *db, char **error,
                                                                  const sqlite3_api_routines *api);
int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *api) {
    (void)error;
    SQLITE_EXTENSION_INIT2(api)
    return sqlite3_create_function(db, "planted", 1, SQLITE_UTF8, NULL, planted, NULL, NULL);
}
