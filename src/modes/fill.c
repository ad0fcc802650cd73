/* Freed memory is filled, and looked at before it is handed out again: what has changed was
 * written by somebody who had freed it.
 *
 *   up to 32 KiB   | df df df df df ......................... df | word |
 *   larger         | df .. 16 KiB .. | as it was | .. 16 KiB .. df | word |
 *
 * The word is the block's seal for its life as a freed one (seal.c): by it the next malloc
 * knows that the block has been filled. It holds only while its slabs have not been cut up for
 * another use meanwhile (cuts, marks.c): whatever was done with the memory then breaks the fill,
 * and so does the word's tag. A block that is not known to be filled is not looked at.
 *
 * Pages that hold free blocks alone may go back to the kernel and come again as zero. So each
 * page of a block must be all as it was filled, or all zero. */
#include "modes/fill.h"

#include <string.h>

#include "modes/marks.h"
#include "modes/seal.h"
#include "os/memory.h"
#include "os/options.h"

enum {
    FILL_BYTE = 0xdf, /* odd, and no address is made of it */
    WHOLE_ROOM = 32 * 1024,
    END_BYTES = WHOLE_ROOM / 2,
};

static uint64_t fill_life(const void *block, size_t room) { return 1 + marks_cuts(block, room); }

static int fill_byte(void) { return hak_options.zero_on_free != 0 ? 0 : FILL_BYTE; }

/* All that may be the program's, the pages of large blocks by the kernel. */
static void clear(void *block, size_t room) {
    if (room <= CLASS_SIZE_MAX || !os_purge(block, room))
        memset(block, 0, room - SEAL_BYTES);
}

static void fill(char *block, size_t room) {
    if (room <= WHOLE_ROOM) {
        memset(block, FILL_BYTE, room - SEAL_BYTES);
    } else {
        memset(block, FILL_BYTE, END_BYTES);
        memset(block + room - END_BYTES, FILL_BYTE, END_BYTES - SEAL_BYTES);
    }
}

void fill_freed(void *block, size_t room, size_t size) {
    if (hak_options.zero_on_free != 0)
        clear(block, room);
    else if (hak_options.hardened >= 2)
        fill(block, room);
    if (hak_options.hardened >= 2)
        seal_close(block, room, size, fill_life(block, room));
}

void fill_tail(void *block, size_t room, size_t kept) {
    char *tail = (char *)block + kept;
    if (hak_options.zero_on_free != 0)
        clear(tail, room - kept);
    else if (hak_options.hardened >= 2)
        fill(tail, room - kept);
}

typedef uint64_t __attribute__((may_alias)) word_t;

/* The first word that is not pattern; end, a multiple of 8 from there, if there is none. */
static const char *first_other(const char *at, const char *end, uint64_t pattern) {
    while (at < end && *(const word_t *)(const void *)at == pattern)
        at += sizeof(word_t);
    return at;
}

/* Whether a range's part on the page of at is all zero: the page went to the kernel, which that
 * of the word at the block's end did not. */
static bool came_back_zero(const char *at, const char *begin, const char *end, const char *word) {
    uintptr_t page = os_page_size();
    const char *page_start = at - (uintptr_t)at % page;
    const char *page_end = page_start + page;
    bool is_first = at == hak_max(page_start, begin);
    const char *stop = hak_min(page_end, end);
    return is_first && page_end <= word && first_other(at, stop, 0) == stop;
}

/* All bytes are equal if each word is like the one before it: libc compares fastest. */
static bool is_all(const char *begin, const char *end, uint64_t pattern) {
    size_t shift = sizeof(word_t);
    return *(const word_t *)(const void *)begin == pattern &&
           memcmp(begin, begin + shift, (size_t)(end - begin) - shift) == 0;
}

/* The first byte of a range that has changed since it was filled; end: none. */
static const char *first_changed(const char *begin, const char *end, const char *word) {
    uint64_t pattern = (uint64_t)fill_byte() * UINT64_C(0x0101010101010101);
    if (hak_likely(is_all(begin, end, pattern)))
        return end;
    const char *at = begin;
    while ((at = first_other(at, end, pattern)) < end && came_back_zero(at, begin, end, word))
        at = hak_min(at - (uintptr_t)at % os_page_size() + os_page_size(), end);
    while (at < end && *(const unsigned char *)at == fill_byte())
        at++;
    return at;
}

size_t fill_damage(const void *block, size_t room) {
    if (seal_size(block, room, fill_life(block, room)) == SEAL_BROKEN)
        return FILL_INTACT;
    const char *start = block;
    const char *word = start + room - SEAL_BYTES;
    bool is_whole = room <= WHOLE_ROOM;
    const char *end = is_whole ? word : start + END_BYTES;
    const char *changed = first_changed(start, end, word);
    if (changed == end && !is_whole) {
        end = word;
        changed = first_changed(start + room - END_BYTES, end, word);
    }
    return changed == end ? FILL_INTACT : (size_t)(changed - start);
}
