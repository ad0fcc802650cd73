/* C++'s operators new and delete under their mangled names (Itanium ABI), in C,
 * so that they are the same fast path and the library needs no C++ library.
 * What happens when memory runs out is in operators.cc. */
#include "abi/interface.h"
#include "hakmem/hakmem.h"

/* operators.cc: calls the program's new_handler until there is memory; then
 * throws std::bad_alloc, or returns NULL for the nothrow forms. */
void *abi_new_slow(size_t size);
void *abi_new_nothrow_slow(size_t size);
void *abi_new_aligned(size_t size, size_t alignment);
void *abi_new_aligned_nothrow(size_t size, size_t alignment);

/* HAK_NEW(name, mangled, parameters, expression): one exported operator. */
#define HAK_NEW(name, mangled, parameters, expression)                                             \
    HAK_EXPORT void *name parameters __asm__(mangled);                                             \
    void *name parameters { return expression; }
#define HAK_DELETE(name, mangled, parameters, call)                                                \
    HAK_EXPORT void name parameters __asm__(mangled);                                              \
    void name parameters { call; }

#define UNUSED __attribute__((unused))

HAK_NEW(new_one, "_Znwm", (size_t size), front_malloc(size, abi_new_slow))
HAK_NEW(new_array, "_Znam", (size_t size), front_malloc(size, abi_new_slow))
HAK_NEW(new_one_nothrow, "_ZnwmRKSt9nothrow_t", (size_t size, UNUSED const void *tag),
        front_malloc(size, abi_new_nothrow_slow))
HAK_NEW(new_array_nothrow, "_ZnamRKSt9nothrow_t", (size_t size, UNUSED const void *tag),
        front_malloc(size, abi_new_nothrow_slow))
HAK_NEW(new_one_aligned, "_ZnwmSt11align_val_t", (size_t size, size_t alignment),
        abi_new_aligned(size, alignment))
HAK_NEW(new_array_aligned, "_ZnamSt11align_val_t", (size_t size, size_t alignment),
        abi_new_aligned(size, alignment))
HAK_NEW(new_one_aligned_nothrow, "_ZnwmSt11align_val_tRKSt9nothrow_t",
        (size_t size, size_t alignment, UNUSED const void *tag),
        abi_new_aligned_nothrow(size, alignment))
HAK_NEW(new_array_aligned_nothrow, "_ZnamSt11align_val_tRKSt9nothrow_t",
        (size_t size, size_t alignment, UNUSED const void *tag),
        abi_new_aligned_nothrow(size, alignment))

HAK_DELETE(delete_one, "_ZdlPv", (void *block), abi_free(block))
HAK_DELETE(delete_array, "_ZdaPv", (void *block), abi_free(block))
HAK_DELETE(delete_one_sized, "_ZdlPvm", (void *block, size_t size), abi_free_sized(block, size, 1))
HAK_DELETE(delete_array_sized, "_ZdaPvm", (void *block, size_t size),
           abi_free_sized(block, size, 1))
HAK_DELETE(delete_one_nothrow, "_ZdlPvRKSt9nothrow_t", (void *block, UNUSED const void *tag),
           abi_free(block))
HAK_DELETE(delete_array_nothrow, "_ZdaPvRKSt9nothrow_t", (void *block, UNUSED const void *tag),
           abi_free(block))
HAK_DELETE(delete_one_aligned, "_ZdlPvSt11align_val_t", (void *block, size_t alignment),
           abi_free_sized(block, FRONT_ANY_SIZE, alignment))
HAK_DELETE(delete_array_aligned, "_ZdaPvSt11align_val_t", (void *block, size_t alignment),
           abi_free_sized(block, FRONT_ANY_SIZE, alignment))
HAK_DELETE(delete_one_sized_aligned, "_ZdlPvmSt11align_val_t",
           (void *block, size_t size, size_t alignment), abi_free_sized(block, size, alignment))
HAK_DELETE(delete_array_sized_aligned, "_ZdaPvmSt11align_val_t",
           (void *block, size_t size, size_t alignment), abi_free_sized(block, size, alignment))
HAK_DELETE(delete_one_aligned_nothrow, "_ZdlPvSt11align_val_tRKSt9nothrow_t",
           (void *block, size_t alignment, UNUSED const void *tag),
           abi_free_sized(block, FRONT_ANY_SIZE, alignment))
HAK_DELETE(delete_array_aligned_nothrow, "_ZdaPvSt11align_val_tRKSt9nothrow_t",
           (void *block, size_t alignment, UNUSED const void *tag),
           abi_free_sized(block, FRONT_ANY_SIZE, alignment))

/* operator new without memory in a program that could not catch an exception. */
_Noreturn void abi_out_of_memory(size_t size);
_Noreturn void abi_out_of_memory(size_t size) {
    hak_panic(HAK_OUT_OF_MEMORY, "operator new of %zu bytes, and no C++ library to throw", size);
}
