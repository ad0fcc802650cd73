/* realloc_grow: 64 buffers grow by half at a time, from 32 bytes; every eighth
 * of them on to 8 MiB, the others to 64 KiB; a buffer that is full grown is
 * given back and starts anew.
 *
 * How strings, vectors and output buffers grow. A step writes what was added: a
 * word in each page and the last one. Cheap if the allocator grows in place or
 * moves pages instead of bytes. One operation is a realloc.
 */
#include "support/driver.h"
#include "support/random.h"

#include <stdlib.h>

enum {
    BUFFERS = 64,
    START_BYTES = 32,
    SMALL_LIMIT_BYTES = 64 << 10,
    LARGE_LIMIT_BYTES = 8 << 20,
    PAGE_BYTES = 4096,
    STEPS = 30000,
};

struct buffer {
    char *data;
    size_t size_bytes; /* a multiple of 8 */
    size_t limit_bytes;
};

static void write_added(struct buffer *buffer, size_t old_bytes, uint64_t word) {
    for (size_t at = old_bytes; at < buffer->size_bytes; at += PAGE_BYTES) {
        *(volatile uint64_t *)(buffer->data + at) = word;
    }
    *(volatile uint64_t *)(buffer->data + buffer->size_bytes - sizeof word) = word;
}

/* What the buffer held at its start, its middle and its end must have come along. */
static uint64_t read_back(const struct buffer *buffer) {
    return driver_first_word(buffer->data) +
           driver_first_word(buffer->data + buffer->size_bytes - sizeof(uint64_t));
}

static uint64_t step(struct buffer *buffer, uint64_t word) {
    uint64_t sum = 0;
    if (buffer->size_bytes >= buffer->limit_bytes) {
        sum = read_back(buffer);
        free(buffer->data);
        buffer->data = NULL;
        buffer->size_bytes = 0;
    }
    size_t old_bytes = buffer->size_bytes;
    size_t new_bytes = old_bytes == 0 ? START_BYTES : (old_bytes + old_bytes / 2) & ~(size_t)15;
    uint64_t last = old_bytes == 0 ? 0 : read_back(buffer);
    buffer->data = driver_check(realloc(buffer->data, new_bytes));
    buffer->size_bytes = new_bytes;
    if (old_bytes != 0 &&
        last != driver_first_word(buffer->data) +
                    driver_first_word(buffer->data + old_bytes - sizeof(uint64_t))) {
        driver_fail("realloc did not keep the contents");
    }
    write_added(buffer, old_bytes, word);
    return sum + last;
}

static uint64_t run(struct buffer *buffers, struct random *random, uint64_t steps) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t bits = random_next(random);
        sum += step(&buffers[random_scale(random_high(bits), BUFFERS)], bits);
    }
    return sum;
}

int main(void) {
    struct random random = RANDOM_SEED;
    struct buffer *buffers = driver_table(BUFFERS * sizeof *buffers);
    for (uint32_t i = 0; i < BUFFERS; i++) {
        buffers[i].limit_bytes = i % 8 == 0 ? LARGE_LIMIT_BYTES : SMALL_LIMIT_BYTES;
    }
    uint64_t sum = run(buffers, &random, STEPS / 10);

    struct driver_result result = {.benchmark = "realloc_grow", .ops = driver_steps(STEPS)};
    driver_start(&result);
    sum += run(buffers, &random, result.ops);
    driver_stop(&result);

    for (uint32_t i = 0; i < BUFFERS; i++) {
        free(buffers[i].data);
    }
    result.checksum = sum;
    driver_print(&result);
    return 0;
}
