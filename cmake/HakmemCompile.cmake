# Flags. hakmem_warnings(target) and hakmem_sanitize(target) are for every target of the tree;
# hakmem_allocator_flags(target) is for the allocator's own objects only.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# The whole level of optimisation is said here, so that no build type adds -O3 or -DNDEBUG.
if(HAKMEM_DEBUG)
  add_compile_options(-O1 -g)
elseif(HAKMEM_SANITIZE)
  add_compile_options(-O1 -g -fno-omit-frame-pointer)
else()
  add_compile_options(-O2 -g)
endif()
# Debian 12's Valgrind gives up on the DWARF 5 that clang writes.
add_compile_options($<$<C_COMPILER_ID:Clang>:-gdwarf-4> $<$<CXX_COMPILER_ID:Clang>:-gdwarf-4>)
# Sized delete is C++14, but clang has it only on request.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fsized-deallocation>)
# Paths in debug information and in __FILE__ do not depend on where the tree lies.
add_compile_options(-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)

function(hakmem_warnings target)
  set(common
      -Wall -Wextra -Wshadow -Wundef -Wpointer-arith -Wwrite-strings -Wvla
      -Wmissing-declarations -Wimplicit-fallthrough -Wformat=2 -Wdouble-promotion
      -Wconversion -Wno-sign-conversion)
  set(c_only -Wstrict-prototypes -Wold-style-definition -Wmissing-prototypes -Wnested-externs)
  set(gcc_only -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wtrampolines)
  target_compile_options(
    ${target}
    PRIVATE ${common}
            $<$<COMPILE_LANGUAGE:C>:${c_only}>
            $<$<C_COMPILER_ID:GNU>:${gcc_only}>
            $<$<BOOL:${HAKMEM_WERROR}>:-Werror>)
endfunction()

function(hakmem_sanitize target)
  if(HAKMEM_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HAKMEM_SANITIZE}
                                             -fno-sanitize-recover=all)
    target_link_options(${target} PUBLIC -fsanitize=${HAKMEM_SANITIZE})
  endif()
endfunction()

# hakmem_coverage(target) links with what counts, hakmem_counted(target) compiles so, too.
# Counters lie in a mapped file, for many tests end by a signal: one (%m) for all processes of a
# program. The library's own objects alone have them.
set(counted -fprofile-instr-generate=${PROJECT_BINARY_DIR}/raw/%m%c.profraw)
function(hakmem_coverage target)
  if(HAKMEM_COVERAGE)
    target_link_options(${target} PUBLIC ${counted})
  endif()
endfunction()

function(hakmem_counted target)
  if(HAKMEM_COVERAGE)
    target_compile_options(${target} PRIVATE ${counted} -fcoverage-mapping
                                             -fprofile-update=atomic "SHELL:-mllvm -runtime-counter-relocation")
  endif()
endfunction()

# Intel's processors from Skylake to Cascade Lake decode anew, each time, the 32 bytes at whose end a
# branch lies (docs/decisions/0065). The assembler moves branches away from there, if it can.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  include(CheckCCompilerFlag)
  set(branch_flag -mbranches-within-32B-boundaries)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
    string(PREPEND branch_flag -Wa,)
  endif()
  check_c_compiler_flag(${branch_flag} HAKMEM_MOVES_BRANCHES)
endif()

function(hakmem_allocator_flags target)
  hakmem_counted(${target})
  target_compile_options(
    ${target}
    PRIVATE
      -fvisibility=hidden
      -ftls-model=initial-exec
      -fno-plt
      -fno-semantic-interposition
      -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free
      -fno-builtin-aligned_alloc -fno-builtin-posix_memalign -fno-builtin-memalign
      # C++ exceptions (a new_handler's, or thread cancellation's) pass through our frames.
      -fexceptions -fasynchronous-unwind-tables
      $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
      # endbr64 in front of malloc and free costs more than it protects in a leaf of this size.
      $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection=none>
      $<$<BOOL:${HAKMEM_MOVES_BRANCHES}>:${branch_flag}>)
  target_compile_definitions(${target} PUBLIC HAK_DEBUG=$<BOOL:${HAKMEM_DEBUG}>
                                              HAK_HAS_UNWINDER=$<BOOL:${HAKMEM_HAS_UNWINDER}>)
endfunction()
