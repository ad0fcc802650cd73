/* The redzone and the sealed word behind each block.
 *
 *   block                                          block + room
 *   | size bytes asked for | redzone .............. | word |
 *
 *   word      tag, 40 bits | slack, 24 bits, veiled
 *   slack     bytes of redzone: room - 8 - size
 *   tag       keyed hash of the block's address, the slack, and whether the block is in use
 *
 * The word tells the exact size, and a write that runs past it breaks the tag. Who wants to
 * forge one needs the secrets, of which nothing in the heap tells anything but the hashes.
 * The slack rather than the size is kept because it is small for blocks of every size.
 *
 * Where there is no redzone the word itself is what a write one byte too far meets: its lowest
 * byte, that of slack 0, is veiled by an odd number, so never 0, which is what strings end in.
 * Nor are the redzone's bytes. All of a redzone is looked at in rooms of up to 1 KiB, the first
 * 57 to 64 bytes in larger ones: writes run over from the start, and rooms for large alignments
 * have long redzones. */
#include "modes/seal.h"

#include "os/frozen.h"
#include "os/system.h"

hak_frozen struct seal_secrets seal_secrets;

void seal_start(void) { os_random_fill(&seal_secrets, sizeof seal_secrets); }

/* A write a few bytes too long breaks the slack and leaves the tag. */
size_t seal_guess(const void *block, size_t room) {
    enum { MOST = 128 * 1024 };
    uint64_t word = *seal_word_at(block, room - SEAL_BYTES);
    uint64_t pattern = seal_pattern(block);
    for (size_t slack = 0; slack <= hak_min(room - SEAL_BYTES, (size_t)MOST); slack++) {
        uint64_t whole = seal_word_for(block, pattern, slack, SEAL_IN_USE);
        if (((whole ^ word) >> SEAL_SLACK_BITS) == 0)
            return room - SEAL_BYTES - slack;
    }
    return SEAL_BROKEN;
}
