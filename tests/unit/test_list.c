/* list.h against an array. */
#include "support.h"

#include <string.h>

#include "base/list.h"

enum { MEMBERS = 20, OPERATIONS = 20000 };

struct member {
    struct list link;
    unsigned number;
};

static struct member members[MEMBERS];
static struct list head;
static struct member *model[MEMBERS]; /* in the list's order */
static size_t model_count;

static void assert_as_model(void) {
    size_t at = 0;
    list_for_each(link, &head) {
        assert_true(at < model_count);
        assert_ptr_equal(container_of(link, struct member, link), model[at++]);
        assert_ptr_equal(link->previous->next, link);
    }
    assert_int_equal(at, model_count);
    assert_int_equal(list_is_empty(&head), model_count == 0);
}

static size_t model_find(const struct member *member) {
    size_t at = 0;
    while (at < model_count && model[at] != member)
        at++;
    return at;
}

static void model_insert(size_t at, struct member *member) {
    memmove(&model[at + 1], &model[at], (model_count - at) * sizeof(void *));
    model[at] = member;
    model_count++;
}

static void model_remove(size_t at) {
    model_count--;
    memmove(&model[at], &model[at + 1], (model_count - at) * sizeof(void *));
}

static void change(uint64_t *seed) {
    struct member *member = &members[random_below(seed, MEMBERS)];
    size_t at = model_find(member);
    if (at < model_count) {
        list_remove(&member->link);
        model_remove(at);
        assert_true(list_is_empty(&member->link));
        return;
    }
    switch (random_below(seed, 3)) {
    case 0:
        list_push_front(&head, &member->link);
        model_insert(0, member);
        break;
    case 1:
        list_push_back(&head, &member->link);
        model_insert(model_count, member);
        break;
    default:
        if (model_count == 0)
            break;
        at = random_below(seed, model_count);
        list_insert_after(&model[at]->link, &member->link);
        model_insert(at + 1, member);
        break;
    }
}

static void test_random_changes(void **state) {
    (void)state;
    uint64_t seed = 1;
    list_init(&head);
    for (unsigned i = 0; i < MEMBERS; i++)
        list_init(&members[i].link);
    for (int i = 0; i < OPERATIONS; i++) {
        change(&seed);
        assert_as_model();
    }
}

/* Removing what is on no list is allowed, and changes nothing. */
static void test_remove_twice(void **state) {
    (void)state;
    struct list alone;
    list_init(&alone);
    list_remove(&alone);
    assert_true(list_is_empty(&alone));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_changes),
        cmocka_unit_test(test_remove_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
