/* Says where the heap is: the SuperSlab of a block. */
#include <inttypes.h>
#include <stdlib.h>

#include "support.h"

int main(void) {
    process_begin();
    void *volatile block = malloc(100);
    CHECK(block != NULL);
    printf("%" PRIxPTR "\n", (uintptr_t)block / (2 * MIB));
    free(block);
    return process_ok();
}
