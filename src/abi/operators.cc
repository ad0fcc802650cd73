// What operator new does when memory runs out ([new.delete.single]): calls the
// program's new_handler and tries again; without one, throws std::bad_alloc. The
// nothrow forms return a null pointer instead, also when the handler throws.
//
// This is the library's only C++, for only C++ can catch. It is written so that
// the library needs no C++ library: everything taken from one is a weak
// reference, present whenever the program is one that could throw. Not even its
// headers are needed.
#include <stddef.h>

namespace std {
using new_handler = void (*)();
new_handler get_new_handler() noexcept __attribute__((weak));
void __throw_bad_alloc() __attribute__((noreturn, weak));
} // namespace std

// What the compiler itself refers to for try and catch.
__asm__(".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak __cxa_rethrow\n"
        ".weak _Unwind_Resume\n");

extern "C" {

// Of the front layer; their headers are C.
void *front_malloc_slow(size_t size);
void *front_aligned(size_t alignment, size_t size);
void abi_out_of_memory(size_t size) __attribute__((noreturn));

void *abi_new_slow(size_t size);
void *abi_new_nothrow_slow(size_t size);
void *abi_new_aligned(size_t size, size_t alignment);
void *abi_new_aligned_nothrow(size_t size, size_t alignment);
}

namespace {

// One attempt: alignment 0 is that of malloc.
void *attempt(size_t size, size_t alignment) {
    if (alignment == 0)
        return front_malloc_slow(size);
    bool is_power_of_two = (alignment & (alignment - 1)) == 0;
    return is_power_of_two ? front_aligned(alignment, size) : nullptr;
}

void *allocate(size_t size, size_t alignment) {
    for (;;) {
        if (void *block = attempt(size, alignment))
            return block;
        std::new_handler handler = std::get_new_handler ? std::get_new_handler() : nullptr;
        if (handler)
            handler();
        else if (std::__throw_bad_alloc)
            std::__throw_bad_alloc();
        else
            abi_out_of_memory(size);
    }
}

// Without exceptions where there is no C++ library to throw them.
void *allocate_nothrow(size_t size, size_t alignment) {
    if (void *block = attempt(size, alignment))
        return block;
    if (!std::get_new_handler || !std::get_new_handler())
        return nullptr;
    try {
        return allocate(size, alignment);
    } catch (...) {
        return nullptr;
    }
}

} // namespace

void *abi_new_slow(size_t size) { return allocate(size, 0); }
void *abi_new_nothrow_slow(size_t size) { return allocate_nothrow(size, 0); }
void *abi_new_aligned(size_t size, size_t alignment) { return allocate(size, alignment); }
void *abi_new_aligned_nothrow(size_t size, size_t alignment) {
    return allocate_nothrow(size, alignment);
}
