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

# Parses large headers once for all files of a target (a third of a build from nothing). Not where the compiler is called through
# a cache (-DCMAKE_CXX_COMPILER_LAUNCHER=ccache): most do not know them.
function(heapspy_precompile target)
  if(CMAKE_CXX_COMPILER_LAUNCHER)
    return()
  endif()
  if(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
