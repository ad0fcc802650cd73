// C++'s thread_local objects are destroyed when their thread ends, by a list of
// libc's that runs before thread-specific data; those of the main thread at
// exit. Their destructors take and give memory, and hand it to other threads.
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support.h"

namespace {

std::mutex gate;
std::vector<std::string> legacy; // allocated in one thread's end, freed by another's

struct Diary {
    std::vector<std::string> pages;
    ~Diary() {
        for (int i = 0; i < 100; i++)
            pages.push_back(std::string(static_cast<std::size_t>(i) * 17 + 1, 'd'));
        const std::lock_guard<std::mutex> hold(gate);
        legacy.swap(pages);
        for (const std::string &page : legacy)
            CHECK(page.back() == 'd');
    }
};

thread_local Diary diary;
thread_local std::unique_ptr<std::string> note;

void live(unsigned seed) {
    diary.pages.emplace_back(
        "a first page that does not fit into the string itself, and ends with a d");
    note = std::make_unique<std::string>(std::size_t{seed} % 5000, 'n');
    CHECK(traffic_run(seed, 500));
}

} // namespace

int main() {
    process_begin();
    live(0);
    for (unsigned round = 0; round < 100; round++) {
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < 8; i++)
            threads.emplace_back(live, round * 8 + i);
        for (std::thread &thread : threads)
            thread.join();
    }
    CHECK(legacy.size() == 101);
    return process_ok();
}
