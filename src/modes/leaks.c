/* A block is lost when no pointer to it, or into it, is left where the program could find one.
 *
 *   roots     all writable memory that is not the heap's: static data, stacks, thread-local
 *             data, the program's own mappings
 *   reached   the blocks that roots point into, and those that reached blocks point into
 *   lost      all other blocks that are the program's
 *
 * Every aligned word that looks like an address counts as a pointer, so a number may keep a block
 * from being called lost; pointers that are stored elsewhere (in registers of threads that still
 * run, in files, disguised) are not seen. Guarded blocks are gone through, but never called lost.
 *
 * HAKMEM's own memory is left out, for it knows all blocks; so is the part of the stack that calls
 * have left behind. Other threads may still run: memory is read through the kernel, which refuses
 * where a plain read would fault, and what they change meanwhile may be told wrongly. */
#include "modes/leaks.h"

#include "modes/fault.h"
#include "modes/guard.h"
#include "modes/history.h"
#include "modes/marks.h"
#include "modes/stacks.h"
#include "os/mappings.h"
#include "os/metadata.h"
#include "span/large.h"

enum {
    READ_BYTES = 64 * 1024, /* at a time; whole pages */
    SHOWN = 10,             /* places in the program */
};

struct range {
    uintptr_t start;
    size_t bytes;
};

struct huge_block {
    struct range range;
    bool is_reached;
};

struct sum {
    size_t blocks, bytes;
};

struct search {
    uintptr_t *text;       /* READ_BYTES */
    struct range *pending; /* reached, but not gone through */
    size_t pending_count, pending_capacity;
    struct huge_block *huge; /* ascending */
    size_t huge_count;
    uintptr_t stack_end;   /* of the calling thread: what lies below is left behind */
    struct sum lost, used; /* at the end */
    struct sum *by_stack;  /* lost, by number of stack */
};

/* --- blocks ---------------------------------------------------------------------- */

static void visit_live(void (*visit)(struct search *search, char *block), struct search *search) {
    for (size_t i = 0; i < window_slab_count / SUPER_SLABS; i++) {
        struct marks_piece *piece = window_super(i) == NULL ? NULL : marks_piece_at(i);
        for (size_t word = 0; piece != NULL && word < MARKS_OF_SUPER / WORD_BITS; word++) {
            uint64_t bits = atomic_load_explicit(&piece->in_use[word], memory_order_relaxed);
            for (; bits != 0; bits &= bits - 1)
                visit(search,
                      window_super_address(i) + (word * WORD_BITS + bit_lowest(bits)) * MARK_BYTES);
        }
    }
}

static void count_one(struct search *search, char *block) {
    (void)block;
    search->pending_capacity++;
}

static void push(struct search *search, uintptr_t start, size_t bytes) {
    if (search->pending_count < search->pending_capacity)
        search->pending[search->pending_count++] = (struct range){start, bytes};
}

/* NULL: it is in none. */
static struct huge_block *huge_of(const struct search *search, uintptr_t address) {
    size_t low = 0;
    size_t high = search->huge_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct huge_block *huge = &search->huge[middle];
        if (address - huge->range.start < huge->range.bytes)
            return huge;
        if (address < huge->range.start)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static void reach_in_window(struct search *search, const void *pointer) {
    struct fault_block block;
    size_t bytes;
    if (entry_bin(window_entry(pointer)) == BIN_GUARD) {
        void *start = guard_reach(pointer, &bytes);
        if (start != NULL)
            push(search, (uintptr_t)start, bytes);
    } else if (window_entry(pointer) != 0 && fault_place(pointer, &block) &&
               marks_has(block.start) && history_reach(block.start)) {
        push(search, (uintptr_t)block.start, block.room);
    }
}

/* Whatever a word says. */
static void reach(struct search *search, uintptr_t address) {
    const void *pointer = (const void *)address; // NOLINT(performance-no-int-to-ptr)
    if (window_contains(pointer)) {
        reach_in_window(search, pointer);
        return;
    }
    struct huge_block *huge = huge_of(search, address);
    if (huge == NULL || huge->is_reached)
        return;
    huge->is_reached = true;
    push(search, huge->range.start, huge->range.bytes);
}

/* --- memory ------------------------------------------------------------------------ */

/* Page by page where not all can be read. */
static void go_through(struct search *search, uintptr_t start, size_t bytes) {
    while (bytes != 0) {
        size_t part = hak_min(bytes, READ_BYTES - start % os_page_size());
        if (!os_read_memory(start, search->text, part)) {
            part = hak_min(bytes, os_page_size() - start % os_page_size());
            if (!os_read_memory(start, search->text, part)) {
                start += part, bytes -= part;
                continue;
            }
        }
        for (size_t i = 0; i < part / sizeof(uintptr_t); i++)
            reach(search, search->text[i]);
        start += part, bytes -= part;
    }
}

/* Pages that hold no pointers of the program's. */
static bool is_left_out(const struct search *search, uintptr_t page) {
    const void *pointer = (const void *)page; // NOLINT(performance-no-int-to-ptr)
    return window_contains(pointer) || huge_of(search, page) != NULL ||
           os_metadata_contains(page) || huge_table_contains(page);
}

static void visit_root(uintptr_t start, uintptr_t end, void *context) {
    struct search *search = context;
    size_t page = os_page_size();
    if (start < search->stack_end && search->stack_end < end)
        start = align_down(search->stack_end, sizeof(uintptr_t));
    while (start < end) {
        size_t bytes = 0;
        while (start + bytes < end && !is_left_out(search, start + bytes))
            bytes = hak_min(align_down(start + bytes, page) + page, end) - start;
        go_through(search, start, bytes);
        start += bytes;
        while (start < end && is_left_out(search, start))
            start = align_down(start, page) + page;
    }
}

/* --- the search --------------------------------------------------------------------- */

static bool begin(struct search *search) {
    size_t page = os_page_size();
    search->huge_count = huge_stats().count;
    visit_live(count_one, search);
    search->pending_capacity += search->huge_count + guard_stats().live;
    search->text = os_metadata_take_sparse(READ_BYTES, page);
    search->pending =
        os_metadata_take_sparse(search->pending_capacity * sizeof *search->pending, page);
    search->huge = os_metadata_take_sparse((search->huge_count + 1) * sizeof *search->huge, page);
    search->by_stack = os_metadata_take_sparse(STACKS_MAX * sizeof *search->by_stack, page);
    return search->text != NULL && search->pending != NULL && search->huge != NULL &&
           search->by_stack != NULL;
}

static void note_huge_blocks(struct search *search) {
    size_t bytes = 0;
    const char *start = NULL;
    size_t count = 0;
    while (count < search->huge_count && (start = huge_next(start, &bytes)) != NULL)
        search->huge[count++] = (struct huge_block){.range = {(uintptr_t)start, bytes}};
    search->huge_count = count;
}

static void add_to(struct sum *sum, size_t bytes) {
    sum->blocks++;
    sum->bytes += bytes;
}

static void add_lost(struct search *search, const void *block, size_t bytes) {
    add_to(&search->lost, bytes);
    add_to(&search->by_stack[history_stack_of(block)], bytes);
}

static void sort_out(struct search *search, char *block) {
    struct fault_block found;
    if (!fault_find(block, &found) || found.start != block || !marks_has(block))
        return;
    size_t bytes = hak_min(found.size, found.room);
    if (history_is_reached(block))
        add_to(&search->used, bytes);
    else
        add_lost(search, block, bytes);
}

static void sort_out_huge(struct search *search) {
    for (size_t i = 0; i < search->huge_count; i++) {
        struct range *range = &search->huge[i].range;
        if (search->huge[i].is_reached)
            add_to(&search->used, range->bytes);
        else
            // NOLINTNEXTLINE(performance-no-int-to-ptr)
            add_lost(search, (const void *)range->start, range->bytes);
    }
}

/* --- for people ---------------------------------------------------------------------- */

/* Of those not shown yet, the place that has lost most; 0 bytes: none. */
static size_t worst_of(const struct search *search) {
    size_t worst = 0;
    for (size_t i = 1; i < STACKS_MAX; i++) {
        if (search->by_stack[i].bytes > search->by_stack[worst].bytes)
            worst = i;
    }
    return worst;
}

static void print(struct search *search) {
    hak_warn("leaks: nothing points to %zu blocks of %zu bytes in all; to %zu of %zu bytes "
             "something does",
             search->lost.blocks, search->lost.bytes, search->used.blocks, search->used.bytes);
    for (unsigned i = 0; i < SHOWN; i++) {
        size_t worst = worst_of(search);
        struct sum *sum = &search->by_stack[worst];
        if (sum->blocks == 0)
            return;
        struct os_stack stack;
        stacks_get((uint32_t)worst, &stack);
        hak_warn("  %zu blocks of %zu bytes in all, allocated%s", sum->blocks, sum->bytes,
                 stack.depth == 0 ? " by whom is not known" : ":");
        os_stack_print_frames(&stack);
        *sum = (struct sum){0};
    }
}

hak_noinline void leaks_report(void) {
    struct search search = {.stack_end = (uintptr_t)__builtin_frame_address(0)};
    if (!begin(&search)) {
        hak_warn("leaks: no memory to look for them");
        return;
    }
    note_huge_blocks(&search);
    if (!os_read_memory((uintptr_t)&search, search.text, sizeof search) ||
        !os_visit_mappings(visit_root, &search)) {
        hak_warn("leaks: not looked for: this process may not read its own memory through the "
                 "kernel, or not /proc/self/maps");
        return;
    }
    while (search.pending_count != 0) {
        struct range range = search.pending[--search.pending_count];
        go_through(&search, range.start, range.bytes);
    }
    visit_live(sort_out, &search);
    sort_out_huge(&search);
    if (search.lost.blocks != 0 || hak_options.verbose >= 1)
        print(&search);
}
