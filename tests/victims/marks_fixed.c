// The same at a fixed address (CMakeLists.txt): where linkers settle weak names themselves.
#define _GNU_SOURCE
#include "marks.c"
