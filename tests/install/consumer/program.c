/* Takes blocks through both families of names and gives each back through the
 * other: that works only when malloc is HAKMEM's. */
#include <hakmem/hakmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char *ours = hak_malloc(100);
    char *theirs = malloc(100000);
    if (ours == NULL || theirs == NULL)
        return 1;
    memset(ours, 1, 100);
    memset(theirs, 2, 100000);
    if (hak_malloc_usable_size(theirs) < 100000)
        return 1;
    free(ours);
    hak_free(theirs);
    printf("hakmem %s\n", hak_version());
    return 0;
}
