/* The same with a kernel that refuses calls: the first 16 bytes of the input are
 * the pattern of what it grants and refuses, repeated over and over. */
#include <stddef.h>
#include <stdint.h>

#include "hakmem/hakmem.h"
#include "interpreter.h"
#include "os/calls.h"
#include "refusals.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

enum { PATTERN_BYTES = 16 };

static const uint8_t *pattern;
static unsigned calls;

static bool refuses(enum os_call kind) {
    (void)kind;
    unsigned call = calls++ % (PATTERN_BYTES * 8);
    return pattern[call / 8] >> (call % 8) & 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static struct interpreter run;
    if (count < PATTERN_BYTES)
        return -1;
    pattern = bytes;
    calls = 0;
    refuses_call = refuses;
    run = (struct interpreter){.tag_seed = 1, .expects_refusals = true};
    interpreter_run(&run, bytes + PATTERN_BYTES, count - PATTERN_BYTES);
    refuses_call = NULL;
    hak_check_heap();
    /* Now that the kernel gives again, so must the heap. */
    run.expects_refusals = false;
    interpreter_run_random(&run, 1, 256);
    interpreter_end(&run);
    return 0;
}
