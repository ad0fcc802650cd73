/* phases idle|trickle|scattered [MIB] [CYCLES]: the load goes up, goes down, and then nothing
 * happens.
 *
 * A service in the evening. The heap grows to MIB mebibytes of live blocks of all
 * sizes, loses nine tenths of them, and rests for two seconds; three times over. A second
 * thread sleeps all the while, as services have them. When does the rest of the system get
 * its memory back? What was taken together goes together, in 27 of 30 long runs, as
 * sessions and jobs end.
 *
 *   idle      nobody calls the allocator while the process rests: only what it gives
 *             back at once, or by a thread or a timer of its own, is given back
 *   trickle   now and then, every 10 ms, a request still comes: 64 small blocks are
 *             taken and given back, so an allocator that looks at the clock may act
 *   scattered as idle, but blocks go at random: what an allocator gives back are whole
 *             pages that happen to be free
 *
 * Of the last cycle, when the heap has a history: rss_after_100ms_bytes,
 * rss_after_bytes (1 s after the drop) and rss_after_2s_bytes. average_rss_bytes is
 * the mean of samples at fixed places of all cycles: eight while it grows, four while it
 * shrinks, and one every tenth of a second of the rest. One operation is a malloc;
 * the time is that of growing and shrinking only.
 */
#include "heap.h"
#include "support/memory.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

enum {
    MIB = 200,
    CYCLES = 3,
    LEFT_ONE_IN = 10,
    SAMPLES_GROWING = 8,
    SAMPLES_SHRINKING = 4,
    RUNS = 30, /* of each ten one stays */
    REST_TENTHS = 20,
    ONE_SECOND = 10, /* tenths */
    TICKS_A_TENTH = 10,
    TICK_NS = 10000000,
    REQUEST_BLOCKS = 64,
    SMALLEST_AVERAGE_BYTES = 256,
};

struct service {
    struct heap heap;
    struct memory_average average;
    uint64_t target_bytes;
    uint64_t busy_ns;
    uint64_t busy_ops;
    uint64_t rested[REST_TENTHS]; /* resident after each tenth of a second of the last rest */
    bool trickle;
    bool scattered;
};

static void grow(struct service *service) {
    struct heap *heap = &service->heap;
    for (uint32_t i = 1; i <= SAMPLES_GROWING; ++i) {
        while (heap->live_bytes < service->target_bytes * i / SAMPLES_GROWING &&
               heap->count < heap->limit) {
            uint64_t bits = random_next(&heap->random);
            heap_keep(heap, heap_take(heap, blocks_mixed_size(bits), bits));
        }
        memory_sample(&service->average, heap->live_bytes);
    }
}

static void shrink_scattered(struct service *service) {
    struct heap *heap = &service->heap;
    uint64_t left_bytes = service->target_bytes / LEFT_ONE_IN;
    for (uint32_t i = 1; i <= SAMPLES_SHRINKING; ++i) {
        uint64_t lost_bytes = (service->target_bytes - left_bytes) * i / SAMPLES_SHRINKING;
        heap_shrink(heap, service->target_bytes - lost_bytes);
        memory_sample(&service->average, heap->live_bytes);
    }
}

/* The table is in the order in which blocks were taken, and stays so. */
static void shrink_in_runs(struct service *service) {
    struct heap *heap = &service->heap;
    uint32_t count = heap->count;
    uint32_t kept = 0;
    uint32_t at = 0;
    for (uint32_t i = 1; i <= SAMPLES_SHRINKING; ++i) {
        for (; at < (uint64_t)count * i / SAMPLES_SHRINKING; ++at) {
            if (at * (uint64_t)RUNS / count % LEFT_ONE_IN == 0) {
                heap->blocks[kept++] = heap->blocks[at];
            } else {
                heap_give(heap, heap->blocks[at]);
            }
        }
        memory_sample(&service->average, heap->live_bytes);
    }
    heap->count = kept;
}

static void shrink(struct service *service) {
    if (service->scattered) {
        shrink_scattered(service);
    } else {
        shrink_in_runs(service);
    }
}

static void serve_request(struct heap *heap) {
    void *blocks[REQUEST_BLOCKS];
    for (uint32_t i = 0; i < REQUEST_BLOCKS; ++i) {
        uint64_t bits = random_next(&heap->random);
        blocks[i] = heap_take(heap, blocks_size(bits, 4, 6), bits);
    }
    for (uint32_t i = 0; i < REQUEST_BLOCKS; ++i) {
        heap_give(heap, blocks[i]);
    }
}

/* By the clock, so that what happens in the rest does not make it longer. */
static void rest(struct service *service) {
    struct timespec wake;
    clock_gettime(CLOCK_MONOTONIC, &wake);
    for (uint32_t tenth = 0; tenth < REST_TENTHS; ++tenth) {
        for (uint32_t tick = 0; tick < TICKS_A_TENTH; ++tick) {
            wake.tv_nsec += TICK_NS;
            if (wake.tv_nsec >= 1000000000) {
                wake.tv_nsec -= 1000000000;
                ++wake.tv_sec;
            }
            while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) != 0) {
            }
            if (service->trickle) {
                serve_request(&service->heap);
            }
        }
        service->rested[tenth] = memory_resident_bytes();
        memory_add(&service->average, service->rested[tenth], service->heap.live_bytes);
    }
}

static void cycle(struct service *service) {
    uint64_t start_ns = driver_now_ns();
    uint64_t start_ops = service->heap.ops;
    uint64_t spent_ns = service->average.spent_ns;
    grow(service);
    shrink(service);
    service->busy_ns += driver_now_ns() - start_ns - (service->average.spent_ns - spent_ns);
    service->busy_ops += service->heap.ops - start_ops;
    rest(service);
}

static pthread_mutex_t bed = PTHREAD_MUTEX_INITIALIZER;

static void *sleep_long(void *unused) {
    (void)unused;
    pthread_mutex_lock(&bed);
    return NULL;
}

int main(int argc, char **argv) {
    static const char *const kinds[] = {"idle", "trickle", "scattered"};
    static const char *const names[] = {"phases", "phases_trickle", "phases_scattered"};
    uint32_t kind = 0;
    while (argc > 1 && kind < 3 && strcmp(argv[1], kinds[kind]) != 0) {
        ++kind;
    }
    if (argc < 2 || argc > 4 || kind == 3) {
        driver_fail("usage: phases idle|trickle|scattered [MIB] [CYCLES]");
    }
    uint64_t target_bytes = driver_optional(argc, argv, 2, MIB, 1, 4096) << 20;
    size_t cycles = driver_optional(argc, argv, 3, CYCLES, 1, 1000);
    struct service service = {
        .heap = heap_of((uint32_t)(target_bytes / SMALLEST_AVERAGE_BYTES)),
        .target_bytes = target_bytes,
        .trickle = kind == 1,
        .scattered = kind == 2,
    };
    pthread_mutex_lock(&bed);
    pthread_t sleeper;
    if (pthread_create(&sleeper, NULL, sleep_long, NULL) != 0) {
        driver_fail("no second thread");
    }
    for (size_t i = 0; i < cycles; ++i) {
        cycle(&service);
    }

    struct driver_result result = {
        .benchmark = names[kind],
        .ops = service.busy_ops,
        .end_ns = service.busy_ns,
    };
    driver_add_metric(&result, "average_rss_bytes", memory_average_resident(&service.average));
    driver_add_metric(&result, "rss_after_100ms_bytes", (double)service.rested[0]);
    driver_add_metric(&result, "rss_after_bytes", (double)service.rested[ONE_SECOND - 1]);
    driver_add_metric(&result, "rss_after_2s_bytes", (double)service.rested[REST_TENTHS - 1]);
    driver_add_metric(&result, "live_bytes", (double)service.heap.live_bytes);
    heap_shrink(&service.heap, 0);
    result.checksum = service.heap.sum;
    driver_print(&result);
    return 0;
}
