# The front door. The build itself is CMakeLists.txt with the presets of CMakePresets.json;
# each target here is a few lines, and tools/ has the rest.

SECONDS ?= 60
SUITE ?= micro
PREFIX ?= /usr/local

.PHONY: release debug demo check asan tsan ubsan musl aarch64 lint format fuzz bench soak mutants proof coverage install clean help
.DEFAULT_GOAL := release

## make              build/release/libhakmem.so and .a
release:
	@tools/setup build
	@tools/build release --target hakmem_shared hakmem_static

## make debug        build/debug/libhakmem.so: all assertions on, hardened=2, history, leaks
debug:
	@tools/setup build
	@tools/build debug --target hakmem_debug hakmem_static

## make demo         a real program under HAKMEM and under the system's allocator
demo:
	@tools/setup build demo
	@tools/build release --target hakmem_shared hakmem_static lab_tools
	@bin/hakmem demo

## make check        every test
check:
	@tools/setup build check
	@tools/check

## make asan         the tests that fit AddressSanitizer; likewise tsan, ubsan
asan tsan ubsan:
	@tools/setup build check
	@tools/test $@

## make musl         the tests on another C library; make aarch64: on an emulated processor
musl aarch64:
	@tools/setup build check ports
	@tools/test $@ $(LEFT_OUT_ON_$@)

# What asks the kernel alone, and how much memory is wasted, no other C library changes.
LEFT_OUT_ON_musl = --exclude-regex '^process\.(kernels|limits|bounds)$$|^abi\.waste|^model\.failures\.each\.lean$$'

# QEMU 7.2 is no kernel: its mremap moves what it shrinks and forgets MREMAP_DONTUNMAP, it writes a
# line of its own about each abort, and what measures memory measures it. A lock of its own that
# another thread holds while one forks stays held in the child: with 16 threads that use new memory
# at that very moment, now and then. The rest takes minutes.
LEFT_OUT_ON_aarch64 = --exclude-regex '^unit\.(memory|panic|large|flush)$$|^model\.failures|^model\.sequences\.(speed|exact|narrow|sampled|hardened1)$$|^process\.(fork|signals|start_and_end)\.hardened$$|^stress\.mixed\.(shards1|shards8|shards20|exact)$$|^stress\.fork|^abi\.(contents|waste|alignment|operators)\.|\.glibc$$'

## make lint         format, static analysis, layers, exported symbols, golden of the fast paths
lint:
	@tools/setup build check lint
	@tools/lint

## make format       rewrites C and Python as lint wants them formatted
format:
	@tools/setup build lint
	@tools/format

## make fuzz SECONDS=n    every fuzzer for n seconds each, under libFuzzer and AFL++
fuzz:
	@tools/setup build fuzz
	@tools/build fuzz
	@tools/build afl
	@tests/fuzz/run $(SECONDS)

## make bench SUITE=micro|threads|memory|programs|all    the benchmarks beside the peers
bench:
	@tools/setup build peers programs
	@tools/build release --target hakmem_shared hakmem_static lab_tools
	@bin/hakmem bench --suite $(SUITE)

## make soak         five minutes of a heap that lives long: drift, variation, tail latency
soak:
	@tools/setup build
	@tools/build release --target hakmem_shared hakmem_static lab_tools
	@bin/hakmem soak --seconds 300

## make mutants      takes out the handling of each hard case: its test must turn red
mutants:
	@tools/setup build check
	@tests/mutants/run

## make coverage     the tests with every line of the allocator counted; below 95 % of a layer fails
coverage:
	@tools/setup build check coverage
	@tools/coverage

## make proof        searches all states of what threads do together, and all sizes
proof:
	@tools/setup build check
	@tests/proof/run

## make install PREFIX=/usr/local    library, headers, CMake package, pkg-config file, command
install:
	@tools/setup build
	@tools/build release --target hakmem_shared hakmem_static lab_tools
	@cmake --install build/release --prefix "$(abspath $(PREFIX))"

## make clean        forgets every build
clean:
	@rm -rf build

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)
