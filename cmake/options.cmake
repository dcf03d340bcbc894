# Switches of the build, and what every target of ours is compiled with.
option(HEAPSPY_TESTS "build the tests" ON)
option(HEAPSPY_BENCH "build the benchmarks" ON)
option(HEAPSPY_EXAMPLES "build the example programs" ON)
option(HEAPSPY_WERROR "treat warnings as errors" ON)
set(HEAPSPY_SANITIZE "" CACHE STRING "sanitizers for the analyzer and its tests: address,undefined or thread (never for the recorder)")

# Line tables are what a stack trace needs; full debug information would double the build time.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

add_library(heapspy_warnings INTERFACE)
target_compile_options(heapspy_warnings INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wcast-align $<$<BOOL:${HEAPSPY_WERROR}>:-Werror>)

add_library(heapspy_sanitize INTERFACE)
if(HEAPSPY_SANITIZE)
  target_compile_options(heapspy_sanitize INTERFACE -fsanitize=${HEAPSPY_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(heapspy_sanitize INTERFACE -fsanitize=${HEAPSPY_SANITIZE})
endif()

# For builds from nothing: parses large headers once for all files of a target, and compiles several of its files at once; together
# that halves the time. Not where the compiler is called through a cache (-DCMAKE_CXX_COMPILER_LAUNCHER=ccache): those build file by
# file, and most do not know precompiled headers. HEAPSPY_TOGETHER=OFF: for tools that want a command for each file.
#   heapspy_compile_together(TARGET HEADER...)    or    heapspy_compile_together(TARGET REUSE_FROM OTHER)
option(HEAPSPY_TOGETHER "compile several files of a target at once" ON)
function(heapspy_compile_together target)
  if(CMAKE_CXX_COMPILER_LAUNCHER OR NOT HEAPSPY_TOGETHER)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
