// Each entry point by itself, in a function that scripts/fast-path counts the instructions of. Prints how many events a phase
// makes.
#include <stdio.h>
#include <stdlib.h>

constexpr int kRounds = 4000;
void* volatile kept;

extern "C" {

[[gnu::noinline]] void phase_malloc_free() {
  for (int i = 0; i < kRounds; i++) {
    kept = malloc(64);
    free(kept);
  }
}

[[gnu::noinline]] void phase_new_delete() {
  for (int i = 0; i < kRounds; i++) {
    kept = operator new(64);
    operator delete(kept, 64);
  }
}

[[gnu::noinline]] void phase_calloc_free() {
  for (int i = 0; i < kRounds; i++) {
    kept = calloc(4, 16);
    free(kept);
  }
}

[[gnu::noinline]] void phase_realloc() {
  for (int i = 0; i < kRounds; i++) {
    kept = realloc(kept, 64);
    kept = realloc(kept, 60);
  }
}

[[gnu::noinline]] void phase_end() { kept = nullptr; }
}

int main() {
  for (int turn = 0; turn < 2; turn++) {  // the second is counted
    phase_malloc_free();
    phase_new_delete();
    phase_calloc_free();
    kept = malloc(60);
    phase_realloc();
    free(kept);
    phase_end();
  }
  printf("%d\n", 2 * kRounds);
}
