/* A library that takes FILLER_BYTES of static TLS. Many copies of it use up the
 * surplus that the dynamic linker keeps for libraries loaded by dlopen. */
__attribute__((tls_model("initial-exec"))) static _Thread_local char filler[FILLER_BYTES];

char *filler_address(void);
char *filler_address(void) { return filler; }
