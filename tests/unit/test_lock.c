/* The lock: one thread inside at a time, sleepers are woken, and a thread that
 * forks walks through what it holds. */
#include "support.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/lock.h"

enum { THREADS = 8, ROUNDS = 20000, CROWD = 64, CROWD_ROUNDS = 200 };

static struct os_lock lock;
static unsigned long counter; /* protected by lock, and by nothing else */

static void *count_up(void *argument) {
    (void)argument;
    for (int i = 0; i < ROUNDS; i++) {
        os_lock_acquire(&lock);
        counter++;
        os_lock_release(&lock);
    }
    return NULL;
}

static void test_mutual_exclusion(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    uint64_t acquired = atomic_load(&lock.acquired);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(counter, THREADS * ROUNDS);
    assert_int_equal(atomic_load(&lock.state), LOCK_FREE);
    assert_int_equal(atomic_load(&lock.acquired), acquired + (size_t)THREADS * ROUNDS);
    assert_true(atomic_load(&lock.contended) < (size_t)THREADS * ROUNDS);
}

static void test_try(void **state) {
    (void)state;
    assert_true(os_lock_try(&lock));
    assert_false(os_lock_try(&lock));
    os_lock_release(&lock);
    assert_true(os_lock_try(&lock));
    os_lock_release(&lock);
}

static atomic_int stage;

static void *wait_inside(void *argument) {
    (void)argument;
    atomic_store(&stage, 1);
    os_lock_acquire(&lock);
    atomic_store(&stage, 2);
    os_lock_release(&lock);
    return NULL;
}

/* Threads that sleep for the lock get it, all of them. */
static void test_sleepers_wake(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    uint64_t acquired = atomic_load(&lock.acquired);
    uint64_t contended = atomic_load(&lock.contended);
    os_lock_acquire(&lock);
    assert_int_equal(atomic_load(&lock.acquired), acquired + 1);
    assert_int_equal(atomic_load(&lock.contended), contended);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, wait_inside, NULL);
    while (atomic_load(&lock.state) != LOCK_HELD_WITH_WAITERS)
        usleep(100);
    assert_int_equal(atomic_load(&stage), 1);
    os_lock_release(&lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&stage), 2);
    /* One of them may have come after another had already left. */
    assert_int_equal(atomic_load(&lock.acquired), acquired + 1 + THREADS);
    assert_in_range(atomic_load(&lock.contended) - contended, 1, THREADS);
}

/* More threads than processors, by far: all on one, each giving it up while it holds the
 * lock, as the kernel makes a holder do whose time is over. Waiters that spun for it would
 * burn the very time that it needs; as they sleep, all get through. */
static void *count_and_yield(void *argument) {
    (void)argument;
    for (int i = 0; i < CROWD_ROUNDS; i++) {
        os_lock_acquire(&lock);
        unsigned long seen = counter;
        sched_yield();
        counter = seen + 1;
        os_lock_release(&lock);
    }
    return NULL;
}

static void test_preempted_holders(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++) {
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pthread_t threads[CROWD];
    counter = 0;
    uint64_t contended = atomic_load(&lock.contended);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_and_yield, NULL), 0);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(counter, CROWD * CROWD_ROUNDS);
    assert_int_equal(atomic_load(&lock.state), LOCK_FREE);
    assert_true(atomic_load(&lock.contended) > contended);
}

/* How many threads of this process sleep. */
static unsigned sleepers(void) {
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert_non_null(tasks);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        char path[300], status;
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            continue;
        count += fscanf(file, "%*d (%*[^)]) %c", &status) == 1 && status == 'S';
        fclose(file);
    }
    closedir(tasks);
    return count;
}

/* A lock that is held for long costs nobody a processor. */
static void test_waiters_sleep(void **state) {
    (void)state;
    pthread_t threads[CROWD];
    atomic_store(&stage, 0);
    os_lock_acquire(&lock);
    for (int i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, wait_inside, NULL), 0);
    while (sleepers() < CROWD) /* for ever, were they to spin: the test has a time limit */
        usleep(1000);
    assert_int_equal(atomic_load(&stage), 1);
    os_lock_release(&lock);
    for (int i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&stage), 2);
}

static void *try_once(void *argument) {
    *(bool *)argument = os_lock_try(&lock);
    return NULL;
}

static bool other_thread_gets_it(void) {
    bool got = true;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, try_once, &got), 0);
    pthread_join(thread, NULL);
    return got;
}

static void test_forker_passes(void **state) {
    (void)state;
    os_lock_acquire(&lock);
    os_lock_pass_begin();
    assert_true(os_lock_is_passed());
    os_lock_acquire(&lock);
    assert_true(os_lock_try(&lock));
    os_lock_release(&lock);
    assert_false(other_thread_gets_it());
    os_lock_pass_end();
    assert_false(os_lock_is_passed());
    assert_false(os_lock_try(&lock));
    os_lock_release(&lock);
    assert_true(other_thread_gets_it());
    os_lock_reset(&lock);
    assert_true(os_lock_try(&lock));
    os_lock_release(&lock);
}

/* The thread that comes out of a fork is the one that went in. */
static void test_identity_in_child(void **state) {
    (void)state;
    os_lock_acquire(&lock);
    os_lock_pass_begin();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool passes = os_lock_is_passed();
        os_lock_pass_end();
        os_lock_reset(&lock);
        _exit(passes && os_lock_try(&lock) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    os_lock_pass_end();
    os_lock_release(&lock);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_try),
        cmocka_unit_test(test_mutual_exclusion),
        cmocka_unit_test(test_sleepers_wake),
        cmocka_unit_test(test_preempted_holders),
        cmocka_unit_test(test_waiters_sleep),
        cmocka_unit_test(test_forker_passes),
        cmocka_unit_test(test_identity_in_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
