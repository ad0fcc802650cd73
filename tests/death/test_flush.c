/* A flush gives each block to the shard that its slab belongs to under the lock,
 * not to the one that it belonged to when the block was put in the bin: slabs
 * move between shards meanwhile (see slab/give.c).
 *
 *   slab A   shard 0, three quarters free -> moves to shard 1
 *   slab B   shard 0, full                -> stays
 *   batch    A B A B A B ...              -> each its own pool's lists and counts
 *
 * And neighbours, which go home together, end with their slab:
 *
 *   slab A   ... | block |
 *   slab B               | block | ...    right behind it
 *
 * In whatever order blocks come, from one slab or from many, each of a batch gets its bit, and
 * nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "hakmem/hakmem.h"
#include "slab/pool.h"

enum { BLOCK_BYTES = 400, MOST = 4096 };

static unsigned class;
static unsigned capacity;

/* Takes a whole slab of the class for a shard. */
static void take_slab(unsigned shard, void **blocks) {
    for (unsigned got = 0; got < capacity;) {
        unsigned more = slab_take(shard, class, blocks + got, capacity - got, NULL);
        assert_int_not_equal(more, 0);
        got += more;
    }
    for (unsigned i = 0; i < capacity; i++)
        assert_ptr_equal(span_of(blocks[i]), span_of(blocks[0]));
}

static unsigned shard_of(const void *block) { return home_shard(span_home(span_of(block))); }

static uint32_t partial_count(unsigned shard) {
    return atomic_load_explicit(&pools[shard][class].partial_count, memory_order_relaxed);
}

static int set_up(void **state) {
    (void)state;
    hak_free(hak_malloc(1)); /* starts the heap */
    class = class_of(BLOCK_BYTES);
    capacity = size_classes[class].capacity;
    return slab_shard_count() == 2 && capacity <= MOST ? 0 : -1;
}

static void blocks_go_to_the_shard_of_their_slab(void **state) {
    (void)state;
    static void *a[MOST], *b[MOST], *batch[2 * MOST];
    take_slab(0, a);
    take_slab(0, b);
    assert_ptr_not_equal(span_of(a[0]), span_of(b[0]));
    unsigned kept = capacity / 4;
    memcpy(batch, a + kept, (capacity - kept) * sizeof *a);
    slab_give(class, batch, capacity - kept);

    /* Shard 1 has no slab of the class and takes the sparse one. */
    void *taken;
    assert_int_equal(slab_take(1, class, &taken, 1, NULL), 1);
    assert_ptr_equal(span_of(taken), span_of(a[0]));
    assert_int_equal(shard_of(a[0]), 1);
    assert_int_equal(shard_of(b[0]), 0);
    assert_int_equal(partial_count(0), 0);
    assert_int_equal(partial_count(1), 1);

    uint64_t given[2] = {pools[0][class].given, pools[1][class].given};
    unsigned count = 0;
    for (unsigned i = 0; i < kept; i++) {
        batch[count++] = a[i];
        batch[count++] = b[i];
    }
    slab_give(class, batch, count);
    assert_int_equal(pools[0][class].given - given[0], kept);
    assert_int_equal(pools[1][class].given - given[1], kept);
    assert_int_equal(partial_count(0), 1);
    assert_int_equal(partial_count(1), 1);
    assert_int_equal(pools[0][class].slab_count, 1);
    assert_int_equal(pools[1][class].slab_count, 1);

    /* What is on a shard's lists is the shard's: it hands out what it got back. */
    void *again;
    assert_int_equal(slab_take(0, class, &again, 1, NULL), 1);
    assert_ptr_equal(span_of(again), span_of(b[0]));
    assert_int_equal(slab_take(1, class, &again, 1, NULL), 1);
    assert_ptr_equal(span_of(again), span_of(a[0]));
}

static void take_whole_slab(unsigned of_class, void **blocks) {
    unsigned count = size_classes[of_class].capacity;
    assert_int_equal(slab_take(0, of_class, blocks, count, NULL), count);
}

static void neighbours_end_with_their_slab(void **state) {
    (void)state;
    enum { BYTES = 4096, COUNT = SLAB_BYTES / BYTES, SLABS = 8 };
    unsigned page_class = class_of(BYTES);
    assert_int_equal(size_classes[page_class].capacity, COUNT); /* less than a bitmap's word */
    static void *slabs[SLABS][COUNT];                           /* from the highest block down */
    take_whole_slab(page_class, slabs[0]);
    unsigned upper = 0;
    do {
        upper++;
        assert_true(upper < SLABS);
        take_whole_slab(page_class, slabs[upper]);
    } while (slabs[upper][COUNT - 1] != (char *)slabs[upper - 1][0] + BYTES);
    void *batch[COUNT + 1]; /* a lone one, then a row of half of the lower and half of the upper */
    unsigned count = 0;
    batch[count++] = slabs[upper - 1][COUNT - 1];
    for (unsigned i = COUNT / 2; i-- > 0;)
        batch[count++] = slabs[upper - 1][i];
    for (unsigned i = 0; i < COUNT / 2; i++)
        batch[count++] = slabs[upper][COUNT - 1 - i];
    slab_give(page_class, batch, count);
    assert_int_equal(span_of(slabs[upper - 1][0])->free_count, 1 + COUNT / 2);
    assert_int_equal(span_of(slabs[upper][0])->free_count, COUNT / 2);
}

/* Places of a slab's blocks and what lies beside them. A block is in use that is not free. */
enum { ROW_MOST = 80, PIECES = 6, BATCH_MOST = ROW_MOST * PIECES };

struct scene {
    unsigned class, capacity;
    ptrdiff_t size;
    struct span *span;
    bool is_free[MOST];
    unsigned free;
    void *batch[BATCH_MOST];
    unsigned count;
};

static unsigned below(unsigned bound) {
    static uint64_t state = 7;
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)((state >> 33) % bound);
}

/* The first block stays in use, or the slab would be given back. */
static void add(struct scene *scene, ptrdiff_t place, ptrdiff_t inside) {
    if (place <= 0)
        return;
    scene->batch[scene->count++] = scene->span->start + place * scene->size + inside;
    if (place < scene->capacity && inside == 0 && !scene->is_free[place]) {
        scene->is_free[place] = true;
        scene->free++;
    }
}

/* Some in a row, up or down, which may end behind the slab; with one of them out of place, or all
 * of them pointers into blocks, or just one alone. */
static void add_piece(struct scene *scene) {
    unsigned length = below(4) == 0 ? 1 : 1 + below(ROW_MOST);
    ptrdiff_t step = below(2) == 0 ? 1 : -1;
    ptrdiff_t inside = below(6) == 0 ? 16 : 0;
    ptrdiff_t odd_one = below(2) == 0 ? (ptrdiff_t)below(length) : -1;
    ptrdiff_t place = below(scene->capacity);
    for (ptrdiff_t i = 0; i < length; i++, place += step)
        add(scene, i == odd_one ? (ptrdiff_t)below(scene->capacity) : place, inside);
}

static void check_bits(const struct scene *scene) {
    assert_int_equal(scene->span->free_count, scene->free);
    for (unsigned i = 0; i < scene->capacity; i++)
        assert_int_equal(bitmap_get(scene->span->free_bits, i), scene->is_free[i]);
}

/* slab_reclaim steps over what is not in use. */
static void each_of_a_batch_gets_its_bit(void **state) {
    (void)state;
    static struct scene scene;
    static void *taken[MOST];
    scene.class = class_of(208);
    scene.size = (ptrdiff_t)class_size(scene.class);
    scene.capacity = size_classes[scene.class].capacity;
    take_whole_slab(scene.class, taken);
    scene.span = span_of(taken[0]);
    for (int round = 0; round < 3000; round++) {
        scene.count = 0;
        for (unsigned pieces = 1 + below(PIECES); pieces > 0; pieces--)
            add_piece(&scene);
        slab_reclaim(scene.class, scene.batch, scene.count);
        check_bits(&scene);
        if (round % 3 != 0)
            continue;
        assert_int_equal(slab_take(0, scene.class, taken, scene.free, NULL), scene.free);
        memset(scene.is_free, 0, sizeof scene.is_free);
        scene.free = 0;
        check_bits(&scene);
    }
}

/* A heap that is freed in no order: slabs of two shards, and one of another class. */
enum { MANY = 9, OTHER_SHARDS = 2, MOST_SCATTERED = 256 };

struct heap {
    unsigned class, capacity;
    ptrdiff_t size;
    struct span *spans[MANY];
    bool is_free[MANY][MOST];
    unsigned free[MANY];
    char *stranger; /* slab of the other class */
};

static void take_heap(struct heap *heap) {
    static void *blocks[MOST];
    heap->class = class_of(224);
    heap->size = (ptrdiff_t)class_size(heap->class);
    heap->capacity = size_classes[heap->class].capacity;
    for (unsigned i = 0; i < MANY; i++) {
        unsigned shard = i < OTHER_SHARDS;
        assert_int_equal(slab_take(shard, heap->class, blocks, heap->capacity, NULL),
                         heap->capacity);
        heap->spans[i] = span_of(blocks[0]);
        memset(heap->is_free[i], 0, sizeof heap->is_free[i]);
        heap->free[i] = 0;
    }
    assert_int_equal(slab_take(0, class_of(240), blocks, 1, NULL), 1);
    heap->stranger = span_of(blocks[0])->start;
}

/* A block of the heap, in use or not, or a pointer that only one of the checks refuses. The first
 * block of each slab stays in use. */
static void *scattered(struct heap *heap) {
    static char outside[16];
    unsigned i = below(MANY);
    unsigned place = 1 + below(heap->capacity - 1);
    char *block = heap->spans[i]->start + place * heap->size;
    switch (below(24)) {
    case 0:
        return block + 16;
    case 1:
        return heap->spans[i]->start + heap->capacity * heap->size;
    case 2:
        return heap->stranger + place * heap->size;
    case 3:
        return outside;
    default:
        heap->free[i] += !heap->is_free[i][place];
        heap->is_free[i][place] = true;
        return block;
    }
}

static void check_heap(const struct heap *heap) {
    for (unsigned i = 0; i < MANY; i++) {
        const struct span *span = heap->spans[i];
        assert_int_equal(span->free_count, heap->free[i]);
        assert_true(span->free_count < span->settles_at);
        for (unsigned place = 0; place < heap->capacity; place++)
            assert_int_equal(bitmap_get(span->free_bits, place), heap->is_free[i][place]);
    }
}

static void scattered_blocks_get_their_bits(void **state) {
    (void)state;
    static struct heap heap;
    static void *batch[MOST_SCATTERED];
    for (int round = 0; round < 60; round++) {
        take_heap(&heap);
        for (int part = 0; part < 12; part++) {
            unsigned count = 1 + below(MOST_SCATTERED);
            for (unsigned i = 0; i < count; i++)
                batch[i] = scattered(&heap);
            slab_reclaim(heap.class, batch, count);
            check_heap(&heap);
        }
        for (unsigned i = 0; i < MANY; i++) { /* the last ones that are in use */
            for (unsigned place = 0; place < heap.capacity; place++) {
                void *block = heap.spans[i]->start + place * heap.size;
                if (!heap.is_free[i][place])
                    slab_give(heap.class, &block, 1);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_go_to_the_shard_of_their_slab),
        cmocka_unit_test(neighbours_end_with_their_slab),
        cmocka_unit_test(each_of_a_batch_gets_its_bit),
        cmocka_unit_test(scattered_blocks_get_their_bits),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
