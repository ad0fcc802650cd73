# hakmem_objects: every object of the allocator, for tests that reach inside.
# hakmem_shared:  libhakmem.so.   hakmem_static: libhakmem.a.
# hakmem_debug:   libhakmem.so of a debug build, with the debug flavour's defaults.

file(GLOB allocator_sources CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/src/base/*.c
     ${PROJECT_SOURCE_DIR}/src/os/*.c
     ${PROJECT_SOURCE_DIR}/src/span/*.c
     ${PROJECT_SOURCE_DIR}/src/slab/*.c
     ${PROJECT_SOURCE_DIR}/src/cache/*.c
     ${PROJECT_SOURCE_DIR}/src/modes/*.c
     ${PROJECT_SOURCE_DIR}/src/front/*.c
     ${PROJECT_SOURCE_DIR}/src/abi/*.c
     ${PROJECT_SOURCE_DIR}/src/abi/*.cc)
# The end of a section is the end of what is linked last.
set(last_source ${PROJECT_SOURCE_DIR}/src/os/frozen.c)
list(REMOVE_ITEM allocator_sources ${last_source})
list(APPEND allocator_sources ${last_source})
if(HAKMEM_SANITIZE)
  list(FILTER allocator_sources EXCLUDE REGEX "/src/abi/(libc|by_name|glibc|operators)\\.(c|cc)$")
endif()

find_package(Threads REQUIRED)

add_library(hakmem_objects OBJECT ${allocator_sources})
set_target_properties(hakmem_objects PROPERTIES POSITION_INDEPENDENT_CODE ON)
target_include_directories(
  hakmem_objects
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
# Empty, as `#define _GNU_SOURCE` in a file makes it; C++ compilers define it themselves.
target_compile_definitions(hakmem_objects PUBLIC $<$<COMPILE_LANGUAGE:C>:_GNU_SOURCE=>)
target_link_libraries(hakmem_objects PUBLIC Threads::Threads)
hakmem_warnings(hakmem_objects)
hakmem_sanitize(hakmem_objects)
hakmem_allocator_flags(hakmem_objects)

# A shared library is linked by the C driver, without the C++ library that CMake would add for
# operators.cc: that file is written to need none.
set(CMAKE_CXX_IMPLICIT_LINK_LIBRARIES "")
function(hakmem_shared_library name)
  add_library(${name} SHARED ${ARGN})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME hakmem LINKER_LANGUAGE C EXPORT_NAME hakmem)
  target_include_directories(
    ${name} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_options(
    ${name}
    PRIVATE
      -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack -Wl,-z,text
      -Wl,-z,start-stop-visibility=hidden
      -Wl,--as-needed -Wl,--hash-style=gnu -Wl,--exclude-libs,ALL -static-libgcc)
  # A sanitizer's run-time library is in the program, not in this library.
  if(NOT HAKMEM_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
  hakmem_sanitize(${name})
  hakmem_coverage(${name})
endfunction()

hakmem_shared_library(hakmem_shared $<TARGET_OBJECTS:hakmem_objects>)

# In a debug build libhakmem.so looks for the program's errors unless told otherwise: one file has
# other defaults. The tests, which set what they need, get the library without that, in plain/.
if(HAKMEM_DEBUG)
  set_target_properties(hakmem_shared PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/plain)
  add_library(hakmem_debug_defaults OBJECT ${PROJECT_SOURCE_DIR}/src/os/options.c)
  set_target_properties(hakmem_debug_defaults PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_link_libraries(hakmem_debug_defaults PRIVATE hakmem_objects)
  target_compile_definitions(hakmem_debug_defaults PRIVATE HAK_DEBUG_DEFAULTS)
  hakmem_warnings(hakmem_debug_defaults)
  hakmem_allocator_flags(hakmem_debug_defaults)
  hakmem_shared_library(
    hakmem_debug $<TARGET_OBJECTS:hakmem_debug_defaults>
                 $<FILTER:$<TARGET_OBJECTS:hakmem_objects>,EXCLUDE,/os/options\\.c\\.o$>)
endif()

# The static library is one relocatable object in which all that is not interface has been made
# local: names of ours cannot meet names of the program's, and a program that takes malloc takes
# free and all the others with it, never half of ours and half of libc's.
set(whole_object ${PROJECT_BINARY_DIR}/hakmem.o)
add_custom_command(
  OUTPUT ${whole_object}
  COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${whole_object} $<TARGET_OBJECTS:hakmem_objects>
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${whole_object}
  DEPENDS hakmem_objects $<TARGET_OBJECTS:hakmem_objects>
  COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Joining hakmem.o")
add_library(hakmem_static STATIC ${whole_object})
set_target_properties(hakmem_static PROPERTIES OUTPUT_NAME hakmem LINKER_LANGUAGE C EXPORT_NAME static)
target_include_directories(
  hakmem_static INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                          $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(hakmem_static INTERFACE Threads::Threads)
hakmem_sanitize(hakmem_static)
hakmem_coverage(hakmem_static)

add_library(hakmem::hakmem ALIAS hakmem_shared)
add_library(hakmem::static ALIAS hakmem_static)
