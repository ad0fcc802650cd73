/* Makes calls into the kernel fail as if it had refused them: what the library's own tests put
 * where a release has nothing (os_test_refuses). */
#ifndef HAK_TESTS_UNIT_REFUSALS_H
#define HAK_TESTS_UNIT_REFUSALS_H

#include "os/calls.h"

/* Asked before each call, in whichever thread; true refuses it. NULL: all are granted. */
hak_global bool (*refuses_call)(enum os_call kind);

#endif
