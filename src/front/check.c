/* The whole heap, layer by layer, each under its own locks (span/check.c, slab/check.c,
 * cache/check.c say what they look at, and why that holds while others go on).
 *
 * The first contradiction ends the process, as every broken promise does: those behind it
 * mostly follow from it, and nothing that is done with such a heap can be relied on. By then
 * no lock is held, so that a handler of SIGABRT may still look around. */
#include "front/front.h"
#include "os/system.h"

/* The C library goes on saying that there are threads when they have ended, or when the process
 * is the child of one that had some; what they were in the middle of is not looked for then. */
static bool is_alone(void) { return registry_count() <= 1 && !os_may_be_threaded(true); }

bool front_find_contradiction(struct finding *finding) {
    const struct thread *thread = front_tls.cache->thread; /* not born for this */
    bool alone = is_alone();
    return !(span_check(finding, alone) && registry_check(finding) && slab_check(finding, alone) &&
             (thread == NULL || cache_check(thread, finding)));
}

void front_check_heap(void) {
    struct finding finding = {0};
    if (front_start() && front_find_contradiction(&finding))
        hak_panic(HAK_CORRUPTED_HEAP, "%s", finding.text);
}
