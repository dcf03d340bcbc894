// Executes itself N more times, each by another function of the exec family, after 5 mallocs; then says that it is over.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char** environ;

int main(int count, char** arguments) {
  if (count < 2) return 2;
  const int left = atoi(arguments[1]);
  for (int i = 0; i < 5; i++) {
    void* block = malloc(100);
    memset(block, left, 100);
  }
  if (left == 0) return puts("over") < 0;
  char next[16];
  snprintf(next, sizeof next, "%d", left - 1);
  char* self = arguments[0];
  char* list[] = {self, next, NULL};
  execve("/nonexistent/program", list, environ);  // fails: the program goes on, and is recorded on
  free(malloc(100));
  switch (left % 8) {
    case 0: execve(self, list, environ); break;
    case 1: execv(self, list); break;
    case 2: execvp(self, list); break;
    case 3: execvpe(self, list, environ); break;
    case 4: execl(self, self, next, NULL); break;
    case 5: execlp(self, self, next, NULL); break;
    case 6: execle(self, self, next, NULL, environ); break;
    default: fexecve(open(self, O_RDONLY), list, environ);
  }
  return 3;
}
