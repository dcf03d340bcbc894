// To be opened with RTLD_DEEPBIND: its malloc and free are those of its own dependencies, past every interposer.
#include <stdlib.h>

void* deep_malloc(size_t bytes) { return malloc(bytes); }
void deep_free(void* block) { free(block); }
