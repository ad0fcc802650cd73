// Every form of C++'s operator new and delete, in a program that has the C++
// library, and the loop around new_handler: whoever replaces these operators
// has to call the handler until there is memory, or it throws, or there is none
// (C++17 [new.delete.single]).
//
//   usage: test_operators glibc|preload|linked
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kImpossible = std::size_t{PTRDIFF_MAX} + 1;

bool on_glibc = false;

// Sizes that the optimiser cannot see through, so that it keeps new and delete.
std::size_t opaque(std::size_t size) {
    volatile std::size_t hidden = size;
    return hidden;
}

void every_operator_is_ours(void **) {
    static const char *const names[] = {
        "_Znwm",
        "_Znam",
        "_ZnwmRKSt9nothrow_t",
        "_ZnamRKSt9nothrow_t",
        "_ZnwmSt11align_val_t",
        "_ZnamSt11align_val_t",
        "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_ZnamSt11align_val_tRKSt9nothrow_t",
        "_ZdlPv",
        "_ZdaPv",
        "_ZdlPvm",
        "_ZdaPvm",
        "_ZdlPvRKSt9nothrow_t",
        "_ZdaPvRKSt9nothrow_t",
        "_ZdlPvSt11align_val_t",
        "_ZdaPvSt11align_val_t",
        "_ZdlPvmSt11align_val_t",
        "_ZdaPvmSt11align_val_t",
        "_ZdlPvSt11align_val_tRKSt9nothrow_t",
        "_ZdaPvSt11align_val_tRKSt9nothrow_t",
    };
    for (const char *name : names) {
        Dl_info info;
        void *function = dlsym(RTLD_DEFAULT, name);
        if (function == nullptr || dladdr(function, &info) == 0) {
            fail_msg("%s is missing", name);
            return;
        }
        const bool ours = std::strstr(info.dli_fname, "libhakmem") != nullptr;
        if (ours == on_glibc)
            fail_msg("%s comes from %s", name, info.dli_fname);
    }
}

void check_block(void *block, std::size_t size, std::size_t alignment) {
    assert_non_null(block);
    assert_int_equal(reinterpret_cast<std::uintptr_t>(block) % alignment, 0);
    assert_true(malloc_usable_size(block) >= size);
    std::memset(block, 0x6b, size);
}

void every_plain_form(void **) {
    for (std::size_t size = 0; size < 4 * kMiB; size = size * 3 + 1) {
        void *block = ::operator new(opaque(size));
        check_block(block, size, 16);
        ::operator delete(block);
        block = ::operator new(opaque(size));
        check_block(block, size, 16);
        ::operator delete(block, size);
        block = ::operator new[](opaque(size));
        check_block(block, size, 16);
        ::operator delete[](block);
        block = ::operator new[](opaque(size));
        check_block(block, size, 16);
        ::operator delete[](block, size);
        block = ::operator new(opaque(size), std::nothrow);
        check_block(block, size, 16);
        ::operator delete(block, std::nothrow);
        block = ::operator new[](opaque(size), std::nothrow);
        check_block(block, size, 16);
        ::operator delete[](block, std::nothrow);
    }
}

void every_aligned_form(void **) {
    for (std::size_t alignment = 16; alignment <= 4 * kMiB; alignment *= 4) {
        const std::align_val_t align{alignment};
        for (std::size_t size = 0; size < 2 * kMiB; size = size * 7 + 1) {
            void *block = ::operator new(opaque(size), align);
            check_block(block, size, alignment);
            ::operator delete(block, align);
            block = ::operator new(opaque(size), align);
            check_block(block, size, alignment);
            ::operator delete(block, size, align);
            block = ::operator new[](opaque(size), align);
            check_block(block, size, alignment);
            ::operator delete[](block, align);
            block = ::operator new[](opaque(size), align);
            check_block(block, size, alignment);
            ::operator delete[](block, size, align);
            block = ::operator new(opaque(size), align, std::nothrow);
            check_block(block, size, alignment);
            ::operator delete(block, align, std::nothrow);
            block = ::operator new[](opaque(size), align, std::nothrow);
            check_block(block, size, alignment);
            ::operator delete[](block, align, std::nothrow);
        }
    }
}

void delete_of_null_is_nothing(void **) {
    void *volatile null = nullptr;
    const std::align_val_t align{64};
    ::operator delete(null);
    ::operator delete[](null);
    ::operator delete (null, std::size_t{10});
    ::operator delete[](null, std::size_t{10});
    ::operator delete(null, std::nothrow);
    ::operator delete[](null, std::nothrow);
    ::operator delete(null, align);
    ::operator delete[](null, align);
    ::operator delete (null, std::size_t{10}, align);
    ::operator delete[](null, std::size_t{10}, align);
    ::operator delete(null, align, std::nothrow);
    ::operator delete[](null, align, std::nothrow);
}

void new_of_zero_is_unique(void **) {
    void *one = ::operator new(opaque(0));
    void *two = ::operator new[](opaque(0));
    assert_non_null(one);
    assert_non_null(two);
    assert_ptr_not_equal(one, two);
    ::operator delete(one);
    ::operator delete[](two);
}

template <typename Function> bool throws_bad_alloc(Function function) {
    try {
        assert_null(function());
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

void without_a_handler_bad_alloc(void **) {
    assert_null(std::get_new_handler());
    const std::align_val_t align{4096};
    assert_true(throws_bad_alloc([] { return ::operator new(opaque(kImpossible)); }));
    assert_true(throws_bad_alloc([] { return ::operator new[](opaque(kImpossible)); }));
    assert_true(throws_bad_alloc([] { return ::operator new(opaque(SIZE_MAX)); }));
    assert_true(throws_bad_alloc([=] { return ::operator new(opaque(kImpossible), align); }));
    assert_true(throws_bad_alloc([=] { return ::operator new[](opaque(SIZE_MAX - 4095), align); }));
    assert_null(::operator new(opaque(kImpossible), std::nothrow));
    assert_null(::operator new[](opaque(kImpossible), std::nothrow));
    assert_null(::operator new(opaque(kImpossible), align, std::nothrow));
    assert_null(::operator new[](opaque(kImpossible), align, std::nothrow));
}

void alignment_that_is_no_power_of_two(void **) {
    assert_true(throws_bad_alloc([] { return ::operator new (64, std::align_val_t{opaque(48)}); }));
    assert_null(::operator new (64, std::align_val_t{opaque(48)}, std::nothrow));
    assert_null(::operator new[](64, std::align_val_t{opaque(3)}, std::nothrow));
}

// A handler for the length of one test.
class HandlerScope {
  public:
    explicit HandlerScope(std::new_handler handler) { std::set_new_handler(handler); }
    ~HandlerScope() { std::set_new_handler(nullptr); }
    HandlerScope(const HandlerScope &) = delete;
    HandlerScope &operator=(const HandlerScope &) = delete;
};

int handler_calls;

void count_and_withdraw_at_three() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

void the_handler_is_called_until_it_withdraws(void **) {
    using Attempt = void *();
    static Attempt *const attempts[] = {
        [] { return ::operator new(opaque(kImpossible)); },
        [] { return ::operator new[](opaque(kImpossible)); },
        [] { return ::operator new (opaque(kImpossible), std::align_val_t{256}); },
        [] { return ::operator new[](opaque(kImpossible), std::align_val_t{256}); },
    };
    for (Attempt *attempt : attempts) {
        HandlerScope scope(count_and_withdraw_at_three);
        handler_calls = 0;
        assert_true(throws_bad_alloc(attempt));
        assert_int_equal(handler_calls, 3);
    }
}

void nothrow_calls_the_handler_too(void **) {
    HandlerScope scope(count_and_withdraw_at_three);
    handler_calls = 0;
    assert_null(::operator new(opaque(kImpossible), std::nothrow));
    assert_int_equal(handler_calls, 3);
    std::set_new_handler(count_and_withdraw_at_three);
    handler_calls = 0;
    assert_null(::operator new[](opaque(kImpossible), std::align_val_t{64}, std::nothrow));
    assert_int_equal(handler_calls, 3);
}

struct OwnError : std::bad_alloc {
    const char *what() const noexcept override { return "the handler's own"; }
};

void throw_own_error() { throw OwnError(); }

void what_the_handler_throws_passes_through(void **) {
    HandlerScope scope(throw_own_error);
    std::string caught;
    try {
        assert_null(::operator new(opaque(kImpossible)));
    } catch (const std::bad_alloc &error) {
        caught = error.what();
    }
    assert_string_equal(caught.c_str(), "the handler's own");
    caught.clear();
    try {
        assert_null(::operator new[](opaque(kImpossible), std::align_val_t{128}));
    } catch (const std::bad_alloc &error) {
        caught = error.what();
    }
    assert_string_equal(caught.c_str(), "the handler's own");
}

void nothrow_swallows_what_the_handler_throws(void **) {
    HandlerScope scope(throw_own_error);
    const std::align_val_t align{512};
    assert_null(::operator new(opaque(kImpossible), std::nothrow));
    assert_null(::operator new[](opaque(kImpossible), std::nothrow));
    assert_null(::operator new(opaque(kImpossible), align, std::nothrow));
    assert_null(::operator new[](opaque(kImpossible), align, std::nothrow));
}

void *reserve;

void give_the_reserve_back() {
    handler_calls++;
    std::free(reserve);
    reserve = nullptr;
    std::set_new_handler(nullptr);
}

std::size_t address_space() {
    unsigned long pages = 0;
    std::FILE *file = std::fopen("/proc/self/statm", "r");
    const int read = std::fscanf(file, "%lu", &pages);
    std::fclose(file);
    return read == 1 ? pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// In a child, which has a limit of its own: takes everything, then asks for
// what only the reserve can give. 0: the handler was called once and helped.
int run_out_with_a_reserve() {
    const std::size_t limit = address_space() + 160 * kMiB;
    const struct rlimit rule = {limit, limit};
    reserve = std::malloc(64 * kMiB);
    if (reserve == nullptr || setrlimit(RLIMIT_AS, &rule) != 0)
        return 1;
    std::memset(reserve, 1, 64 * kMiB);
    for (std::size_t size = 8 * kMiB; size >= 64; size /= 2) {
        while (void *block = ::operator new(size, std::nothrow))
            std::memset(block, 1, size);
    }
    std::set_new_handler(give_the_reserve_back);
    handler_calls = 0;
    void *block = ::operator new(opaque(40 * kMiB));
    std::memset(block, 2, 40 * kMiB);
    return handler_calls == 1 ? 0 : 2;
}

void a_handler_that_frees_memory_helps(void **) {
    std::fflush(nullptr);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int result = 3;
        try {
            result = run_out_with_a_reserve();
        } catch (const std::bad_alloc &) {
            result = 4;
        }
        _exit(result);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

struct alignas(256) Overaligned {
    char bytes[300];
};

struct Counted {
    static int alive;
    Counted() { alive++; }
    ~Counted() { alive--; }
    std::string name = "a name that is too long for the string itself";
};
int Counted::alive;

void expressions_and_containers(void **) {
    {
        std::vector<std::unique_ptr<Overaligned>> overaligned;
        for (int i = 0; i < 100; i++) {
            overaligned.push_back(std::make_unique<Overaligned>());
            assert_int_equal(reinterpret_cast<std::uintptr_t>(overaligned.back().get()) % 256, 0);
        }
        const std::unique_ptr<Counted[]> many(new Counted[opaque(1000)]);
        const std::shared_ptr<Counted> shared = std::make_shared<Counted>();
        assert_int_equal(Counted::alive, 1001);
    }
    assert_int_equal(Counted::alive, 0);
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    on_glibc = std::strcmp(argv[1], "glibc") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operator_is_ours),
        cmocka_unit_test(every_plain_form),
        cmocka_unit_test(every_aligned_form),
        cmocka_unit_test(delete_of_null_is_nothing),
        cmocka_unit_test(new_of_zero_is_unique),
        cmocka_unit_test(without_a_handler_bad_alloc),
        cmocka_unit_test(alignment_that_is_no_power_of_two),
        cmocka_unit_test(the_handler_is_called_until_it_withdraws),
        cmocka_unit_test(nothrow_calls_the_handler_too),
        cmocka_unit_test(what_the_handler_throws_passes_through),
        cmocka_unit_test(nothrow_swallows_what_the_handler_throws),
        cmocka_unit_test(a_handler_that_frees_memory_helps),
        cmocka_unit_test(expressions_and_containers),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
