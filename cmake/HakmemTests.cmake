# Every folder of tests/ with a CMakeLists.txt is a suite. Tests are named suite.test, and a sanitizer
# build has only the suites that reach the allocator through its hak_ names.

set(HAKMEM_PYTHON ${PROJECT_SOURCE_DIR}/.venv/bin/python)

set(suites ${HAKMEM_SUITES})
if(NOT suites)
  set(suites unit model stress)
  # ThreadSanitizer's shadow is several times the memory that tests of the interface measure.
  if(NOT HAKMEM_SANITIZE MATCHES "thread")
    list(APPEND suites abi)
  endif()
  if(NOT HAKMEM_SANITIZE)
    list(APPEND suites death process programs golden lab install)
  endif()
endif()

foreach(suite IN LISTS suites)
  if(EXISTS ${PROJECT_SOURCE_DIR}/tests/${suite}/CMakeLists.txt)
    add_subdirectory(tests/${suite})
  endif()
endforeach()
