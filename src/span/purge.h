/* A purge under way: what is to be purged, and how that went. See purge.c. */
#ifndef HAK_SPAN_PURGE_H
#define HAK_SPAN_PURGE_H

#include "os/lock.h"

struct purge {
    uint64_t before_ms; /* what has been dirty since then or longer, */
    size_t most_bytes;  /* until about so much has gone */
    bool keeps_some;    /* but for what the profile keeps for ever */
    bool spares_blank;  /* and for parts of huge pages that were never used */
    bool left_some;     /* there is dirty memory that is not that old yet */
    size_t done_bytes;  /* given to the kernel */
};

/* Held while slabs are on no list for their pages to be purged: a fork in between would
 * lose them to the child. The call into the kernel is made with this lock alone. */
hak_global struct os_lock purge_lock;

#endif
