/* The measured part of a driver: how long it is, and its clocks. */
#include "support/driver.h"

#include <stdlib.h>
#include <time.h>

enum { LARGEST_DIVISOR = 1000000 };

static uint64_t cpu_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void driver_start(struct driver_result *result) {
    result->cpu_ns = cpu_now_ns();
    result->start_ns = driver_now_ns();
}

void driver_stop(struct driver_result *result) {
    result->end_ns = driver_now_ns();
    result->cpu_ns = cpu_now_ns() - result->cpu_ns;
}

uint64_t driver_steps(uint64_t usual) {
    const char *divisor = getenv("BENCH_DIVIDE");
    uint64_t steps = divisor == NULL ? usual : usual / driver_number(divisor, 1, LARGEST_DIVISOR);
    return steps == 0 ? 1 : steps;
}
