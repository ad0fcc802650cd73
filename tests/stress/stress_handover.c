/* Producers allocate, consumers free: every block is freed by a thread of another
 * shard than the one it came from.
 *
 *   producer --queue--> consumer      four pairs at once
 *
 * The blocks must go home (law 6): many times more bytes are handed over than the
 * heap may have grown by in the end. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "abi/figures.h"
#include "hakmem/hakmem.h"
#include "interpreter.h"
#include "pattern.h"
#include "support.h"

enum {
    PAIRS = 4,
    QUEUE_BLOCKS = 512,
    BLOCKS = 10000 * STRESS_SCALE,
    SIZE_MAX_BYTES = 2048,
    CHECK_EVERY = 20000,       /* blocks */
    HEAP_MAX_BYTES = 64 << 20, /* the blocks in flight take 4 MiB at most */
};

struct message {
    unsigned char *start;
    size_t bytes;
    uint64_t tag;
};

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct message messages[QUEUE_BLOCKS];
    size_t first, count;
    uint64_t seed;
};

static struct queue queues[PAIRS];

static void put(struct queue *queue, struct message message) {
    pthread_mutex_lock(&queue->lock);
    while (queue->count == QUEUE_BLOCKS)
        pthread_cond_wait(&queue->changed, &queue->lock);
    queue->messages[(queue->first + queue->count) % QUEUE_BLOCKS] = message;
    queue->count++;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

static struct message get(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->count == 0)
        pthread_cond_wait(&queue->changed, &queue->lock);
    struct message message = queue->messages[queue->first];
    queue->first = (queue->first + 1) % QUEUE_BLOCKS;
    queue->count--;
    pthread_cond_signal(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    return message;
}

static void *produce(void *argument) {
    struct queue *queue = argument;
    for (uint64_t i = 0; i < BLOCKS; i++) {
        size_t bytes = 1 + random_next(&queue->seed) % SIZE_MAX_BYTES;
        struct message message = {hak_malloc(bytes), bytes, i};
        require(message.start != NULL, "malloc refused");
        pattern_fill(message.start, bytes, i);
        put(queue, message);
    }
    return NULL;
}

static void *consume(void *argument) {
    for (uint64_t i = 0; i < BLOCKS; i++) {
        struct message message = get(argument);
        size_t fault = pattern_find_fault(message.start, message.bytes, message.bytes, message.tag);
        require(message.tag == i && fault == SIZE_MAX, "a block changed on its way");
        hak_free(message.start);
        if (i % CHECK_EVERY == 0)
            hak_check_heap();
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2 * PAIRS];
    for (unsigned i = 0; i < PAIRS; i++) {
        queues[i] = (struct queue){
            .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .seed = i};
        pthread_t *pair = &threads[(size_t)2 * i];
        require(pthread_create(&pair[0], NULL, produce, &queues[i]) == 0, "no thread");
        require(pthread_create(&pair[1], NULL, consume, &queues[i]) == 0, "no thread");
    }
    for (unsigned i = 0; i < 2 * PAIRS; i++)
        pthread_join(threads[i], NULL);
    size_t heap_bytes = figures_gather().arena.committed_bytes;
    printf("stress: %d blocks handed over, the heap has %zu KiB\n", PAIRS * BLOCKS,
           heap_bytes / 1024);
    require(heap_bytes <= HEAP_MAX_BYTES, "the heap grew: blocks do not go home");
    interpreter_expect_empty_heap();
    return 0;
}
