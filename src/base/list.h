/* Doubly linked lists whose links lie inside the members. The head is a link
 * too: an empty list points to itself, so insertion and removal have no
 * special case. A member that is on no list points to itself as well.
 * Protected by whatever protects the list. */
#ifndef HAK_BASE_LIST_H
#define HAK_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

struct list {
    struct list *next;
    struct list *previous;
};

hak_inline void list_init(struct list *link) { link->next = link->previous = link; }

hak_inline bool list_is_empty(const struct list *head) { return head->next == head; }

hak_inline void list_insert_after(struct list *place, struct list *link) {
    link->previous = place;
    link->next = place->next;
    place->next->previous = link;
    place->next = link;
}

hak_inline void list_push_front(struct list *head, struct list *link) {
    list_insert_after(head, link);
}

hak_inline void list_push_back(struct list *head, struct list *link) {
    list_insert_after(head->previous, link);
}

hak_inline void list_remove(struct list *link) {
    link->previous->next = link->next;
    link->next->previous = link->previous;
    list_init(link);
}

/* For checks of a list that may be broken: the next link if it leads back, else NULL. */
hak_inline struct list *list_next_sound(const struct list *link) {
    struct list *next = link->next;
    bool is_link = next != NULL && is_aligned((uintptr_t)next, _Alignof(struct list));
    return is_link && next->previous == link ? next : NULL;
}

/* Counts the members of a list; false if it is broken, or has more than so many. */
hak_inline bool list_count_sound(const struct list *head, size_t most, size_t *count) {
    *count = 0;
    for (const struct list *at = head;;) {
        at = list_next_sound(at);
        if (at == NULL)
            return false;
        if (at == head)
            return true;
        if (++*count > most)
            return false;
    }
}

#define list_for_each(link, head)                                                                  \
    for (struct list *link = (head)->next; link != (head); link = link->next)

#endif
