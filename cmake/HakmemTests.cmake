# Every folder of tests/ with a CMakeLists.txt is a suite. Tests are named suite.test, and a sanitizer
# build has only the suites that reach the allocator through its hak_ names.

set(HAKMEM_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)

# Other C libraries and processors (cmake/musl.cmake, cmake/aarch64.cmake) say how their programs are
# started here.
set(HAKMEM_PRELOAD LD_PRELOAD CACHE STRING "The variable that holds what a test's program preloads")
set(HAKMEM_LAUNCHER "" CACHE STRING "A command that starts a program; what to preload is added to its end")
option(HAKMEM_HAS_CMOCKA "cmocka is there for this C library and processor" ON)

option(HAKMEM_LIBC_IS_GLIBC "The C library is glibc, with what only it has" ON)
option(HAKMEM_HAS_CXX "There is a C++ library for this C library" ON)

# cmocka, or the part of it that the tests use.
add_library(hakmem_cmocka INTERFACE)
if(HAKMEM_HAS_CMOCKA)
  find_library(cmocka_library cmocka REQUIRED)
  target_link_libraries(hakmem_cmocka INTERFACE ${cmocka_library})
else()
  target_include_directories(hakmem_cmocka INTERFACE ${PROJECT_SOURCE_DIR}/tests/cmocka)
endif()

# hakmem_pytest(test file timeout): a file of pytest tests of programs of this build.
function(hakmem_pytest name file timeout)
  add_test(NAME ${name} COMMAND ${HAKMEM_PYTHON} -m pytest -q -p no:cacheprovider
                                ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  set_tests_properties(
    ${name} PROPERTIES
    TIMEOUT ${timeout}
    ENVIRONMENT
    "HAKMEM_LIBRARY=$<TARGET_FILE:hakmem_shared>;HAKMEM_BUILD=${PROJECT_BINARY_DIR};HAKMEM_LAUNCHER=${HAKMEM_LAUNCHER}")
endfunction()

set(suites ${HAKMEM_SUITES})
if(NOT suites)
  set(suites unit model stress)
  # ThreadSanitizer's shadow is several times the memory that tests of the interface measure.
  if(NOT HAKMEM_SANITIZE MATCHES "thread")
    list(APPEND suites abi)
  endif()
  if(NOT HAKMEM_SANITIZE)
    list(APPEND suites kernel death attacks process programs golden lab install proof)
  endif()
endif()

foreach(suite IN LISTS suites)
  if(EXISTS ${PROJECT_SOURCE_DIR}/tests/${suite}/CMakeLists.txt)
    add_subdirectory(tests/${suite})
  endif()
endforeach()
