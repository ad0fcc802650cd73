// C++ in a program without a dynamic linker: operators, exceptions, containers
// and threads on libhakmem.a.
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

extern "C" std::size_t hak_malloc_usable_size(void *block);

namespace {

void work() {
    std::map<int, std::string> names;
    for (int i = 0; i < 3000; i++)
        names[i * 7919 % 3001] = std::string(static_cast<std::size_t>(i % 500), 'x');
    for (const auto &entry : names)
        CHECK(entry.second.find('y') == std::string::npos);
}

bool bad_alloc_is_thrown() {
    volatile std::size_t impossible = std::size_t{PTRDIFF_MAX} + 1;
    try {
        void *volatile block = ::operator new(impossible);
        return block == nullptr;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

} // namespace

int main() {
    process_begin();
    int *number = new int(42);
    CHECK(hak_malloc_usable_size(number) >= sizeof(int));
    delete number;
    CHECK(bad_alloc_is_thrown());
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; i++)
        threads.emplace_back(work);
    for (std::thread &thread : threads)
        thread.join();
    return process_ok();
}
