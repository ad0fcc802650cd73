/* libFuzzer chooses the operations of the model's interpreter. The heap is not
 * made anew for each input, as no program's is; blocks are. interpreter_end checks the heap. */
#include <stddef.h>
#include <stdint.h>

#include "interpreter.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    static struct interpreter run;
    run = (struct interpreter){.tag_seed = 1};
    interpreter_run(&run, bytes, count);
    interpreter_end(&run);
    return 0;
}
