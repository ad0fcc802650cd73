/* libwitness.so: proof of which allocator a process uses.
 *
 * When a library in LD_PRELOAD cannot be loaded (wrong path, wrong machine,
 * privileged program), the dynamic linker prints a warning at best and runs the
 * program with the system's malloc: a benchmark would compare glibc with glibc.
 * So the lab preloads this library, before the allocator's. It runs once, in
 * each process, before main, when the dynamic linker has mapped everything, and
 * appends one line to the file named by LAB_WITNESS:
 *
 *   pid TAB command name TAB object that malloc comes from TAB object of free
 *
 * That is more than "is mapped": it is the object which a call of malloc reaches.
 * A process that is not preloaded at all (static, privileged, or started with an
 * environment of its own) writes no line, which the lab takes as a failure too.
 *
 * It must not disturb what is measured: no allocation, no stdio, no code at exit,
 * about 20 microseconds and five pages, the same under every allocator.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { LINE_BYTES = 2 * 4096 + 64, COMMAND_BYTES = 16 };

struct line {
    size_t length;
    char text[LINE_BYTES];
};

static void append(struct line *line, const char *text) {
    size_t length = strlen(text);
    if (length > sizeof line->text - line->length) {
        length = sizeof line->text - line->length;
    }
    memcpy(line->text + line->length, text, length);
    line->length += length;
}

static void append_number(struct line *line, unsigned long number) {
    char digits[24];
    char *first = digits + sizeof digits - 1;
    *first = '\0';
    do {
        *--first = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    append(line, first);
}

/* The object whose code a call of the function reaches.
 *
 * An executable at a fixed address that takes the function's address has a stub of its own under
 * the function's name: a symbol with a value but without a definition. Everybody's pointers lead
 * to that stub, and it jumps to the first definition behind the executable, which is also the
 * first behind this library, as the lab preloads it before all others. */
static void append_object_of(struct line *line, const char *function) {
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    void *address = dlsym(RTLD_DEFAULT, function);
    int found = address != NULL && dladdr1(address, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0;
    if (found && symbol != NULL && symbol->st_shndx == SHN_UNDEF) {
        address = dlsym(RTLD_NEXT, function);
        found = address != NULL && dladdr(address, &info) != 0;
    }
    append(line, "\t");
    append(line, found && info.dli_fname != NULL ? info.dli_fname : "?");
}

__attribute__((constructor)) static void testify(void) {
    const char *path = getenv("LAB_WITNESS");
    if (path == NULL) {
        return;
    }
    int saved_errno = errno;
    char command[COMMAND_BYTES + 1] = "";
    prctl(PR_GET_NAME, command);

    struct line line = {.length = 0};
    append_number(&line, (unsigned long)getpid());
    append(&line, "\t");
    append(&line, command);
    append_object_of(&line, "malloc");
    append_object_of(&line, "free");
    append(&line, "\n");

    /* One write in append mode is one whole line, whoever else is writing. A file that cannot be
     * written leaves no line, and so a run that is refused: there is nothing better to do here. */
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t written = write(fd, line.text, line.length);
        (void)written;
        close(fd);
    }
    errno = saved_errno;
}
