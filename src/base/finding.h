/* What a check of the heap finds: the first contradiction, in words for people. */
#ifndef HAK_BASE_FINDING_H
#define HAK_BASE_FINDING_H

#include <stdbool.h>
#include <stddef.h>

enum { FINDING_CAPACITY = 256 };

/* All zero: nothing found yet. */
struct finding {
    char text[FINDING_CAPACITY]; /* terminated; cut where it does not fit */
};

/* Notes a contradiction (base/format.h has the formats). Always false, so that a check can
 * end with `return finding_note(...)`: each returns whether what it looked at is whole. */
bool finding_note(struct finding *finding, const char *format, ...)
    __attribute__((cold, format(printf, 2, 3)));

#endif
