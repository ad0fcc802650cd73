# musl, by the wrapper specs of Debian's musl-tools: a toolchain file for the preset "musl".
#
# Debian has no C++ library for musl. HAKMEM needs none, so a C++ compiler without one does.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(musl_specs /usr/lib/${CMAKE_SYSTEM_PROCESSOR}-linux-musl/musl-gcc.specs)

set(CMAKE_C_FLAGS_INIT -specs=${musl_specs})
set(CMAKE_CXX_FLAGS_INIT -specs=${musl_specs})
# No program that CMake tries to link as C++ would link.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
