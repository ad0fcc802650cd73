// A C++ program: the operators are HAKMEM's, and a failing one throws.
#include <cstdint>
#include <hakmem/hakmem.h>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <vector>

int main() {
    auto block = std::make_unique<std::vector<std::string>>(1000, std::string(100, 'x'));
    if (hak_malloc_usable_size(block->data()) < 1000 * sizeof(std::string))
        return 1;
    bool thrown = false;
    try {
        volatile std::size_t too_much = PTRDIFF_MAX;
        delete[] new char[too_much];
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    std::cout << "hakmem " << hak_version() << "\n";
    return thrown ? 0 : 1;
}
