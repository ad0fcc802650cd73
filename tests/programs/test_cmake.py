"""cmake: configure, build and test a project of forty files; products must be the same bytes."""

from harness import TIMES, Filter, Sides, assert_same, assert_same_files, write_both

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(sample VERSION 1.2.3 LANGUAGES C CXX)
include(CheckSymbolExists)
include(CheckIncludeFile)
check_include_file(sys/epoll.h HAVE_EPOLL)
check_symbol_exists(reallocarray stdlib.h HAVE_REALLOCARRAY)
find_package(Threads REQUIRED)
set(sources)
foreach(i RANGE 39)
  set(VALUE ${i})
  configure_file(part.c.in part${i}.c @ONLY)
  list(APPEND sources ${CMAKE_CURRENT_BINARY_DIR}/part${i}.c)
endforeach()
list(REVERSE sources)
string(REPEAT "text " 20000 text)
string(REGEX MATCHALL "t[a-z]x" found "${text}")
list(LENGTH found count)
message(STATUS "${count} found, epoll ${HAVE_EPOLL}, reallocarray ${HAVE_REALLOCARRAY}")
add_library(parts STATIC ${sources})
add_executable(sample main.cc)
target_link_libraries(sample PRIVATE parts Threads::Threads)
add_custom_command(OUTPUT list.txt COMMAND ${CMAKE_COMMAND} -E echo made > list.txt)
add_custom_target(made ALL DEPENDS list.txt)
enable_testing()
foreach(i RANGE 19)
  add_test(NAME sample.${i} COMMAND sample ${i})
endforeach()
"""

PART = "int part@VALUE@(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * @VALUE@; return s; }\n"


def main_source() -> str:
    declarations = "".join(f'extern "C" int part{i}(int);\n' for i in range(40))
    calls = " + ".join(f"part{i}(n)" for i in range(40))
    return f"""#include <cstdlib>
#include <iostream>
#include <string>
{declarations}
int main(int argc, char **argv) {{
  int n = argc > 1 ? std::atoi(argv[1]) : 1;
  std::string text = std::to_string({calls});
  std::cout << "sum " << text << std::string(200, '.') << std::endl;
}}
"""


def test_configure_build_test(sides: Sides) -> None:
    write_both(sides, "project/CMakeLists.txt", PROJECT)
    write_both(sides, "project/part.c.in", PART)
    write_both(sides, "project/main.cc", main_source())
    # The folder's path must not get into the objects.
    flags = "-DCMAKE_C_FLAGS=-O2", "-DCMAKE_CXX_FLAGS=-O2", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"
    configure = ("/usr/bin/cmake", "-G", "Unix Makefiles", "-S", "project", "-B", "build", *flags)
    configured = assert_same(sides, *configure, filters=[TIMES])
    assert "20000 found, epoll 1, reallocarray 1" in configured
    assert_same(sides, "/usr/bin/cmake", "--build", "build", timeout=200)
    assert_same_files(sides, "sample", "part*.o", "main.cc.o", "list.txt")
    # Columns are filled up with blanks to the width of the time.
    columns = [Filter(r" +\d+\.\d+ sec$", " <time>"), Filter(r"= +\d+\.\d+ sec", "= <time>")]
    tested = assert_same(sides, "/usr/bin/ctest", "--test-dir", "build", filters=columns)
    assert "100% tests passed, 0 tests failed out of 20" in tested


def test_script_mode(sides: Sides) -> None:
    script = """
    set(total 0)
    foreach(i RANGE 1 20000)
      math(EXPR total "${total} + ${i} % 7")
      list(APPEND items "item${i}")
    endforeach()
    list(SORT items COMPARE NATURAL ORDER DESCENDING)
    list(SUBLIST items 0 10 first)
    string(SHA256 digest "${items}")
    message("${total} ${first} ${digest}")
    string(JSON json SET "{}" list "[1, 2, 3]")
    message("${json}")
    """
    write_both(sides, "script.cmake", script)
    assert_same(sides, "/usr/bin/cmake", "-P", "script.cmake")
