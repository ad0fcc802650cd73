/* Allocates, then prints the value in force of the option named by argv[1]. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef long get_function(const char *name, char *buffer, size_t capacity);

int main(int argc, char **argv) {
    char value[1024];
    free(malloc(100));
    get_function *get = (get_function *)dlsym(RTLD_DEFAULT, "hak_option_get");
    if (get == NULL || argc != 2 || get(argv[1], value, sizeof value) < 0)
        return 1;
    printf("%s=%s\n", argv[1], value);
    return 0;
}
