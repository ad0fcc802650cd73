#include "refusals.h"

bool (*refuses_call)(enum os_call kind);

bool os_test_refuses(enum os_call kind) { return refuses_call != NULL && refuses_call(kind); }
