# hakmem_inside(target [LAYERS layer...]): links the allocator's own objects into a test program.
#
# Left out are the names that libc has too (malloc, operator new, ...): the test framework keeps the
# system's malloc, HAKMEM is reached through its hak_ names or through the functions of a layer, and
# a test may refuse it memory without taking the framework's. So the same programs run in every
# build, the sanitizers' included.
#
# The kernel refuses what refuses_call says (refusals.h).
#
# LAYERS: only these layers' objects. Without abi and front nothing starts by itself: the test sets
# up the layers that it wants, as it wants them.
function(hakmem_inside target)
  cmake_parse_arguments(PARSE_ARGV 1 inside "" "" "LAYERS")
  set(objects $<TARGET_OBJECTS:hakmem_objects>)
  set(objects "$<FILTER:${objects},EXCLUDE,/src/abi/(libc|by_name|glibc|operators)\\.>")
  if(inside_LAYERS)
    list(JOIN inside_LAYERS "|" layers)
    set(objects "$<FILTER:${objects},INCLUDE,/src/(${layers})/>")
  endif()
  target_sources(${target} PRIVATE ${objects} ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/refusals.c)
  # None of these objects is C++, which not every C library has a library for.
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                               ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE HAK_DEBUG=$<BOOL:${HAKMEM_DEBUG}>
                                               HAK_HAS_UNWINDER=$<BOOL:${HAKMEM_HAS_UNWINDER}>)
  target_link_libraries(${target} PRIVATE Threads::Threads)
  hakmem_warnings(${target})
  hakmem_sanitize(${target})
  hakmem_coverage(${target})
endfunction()
