// A server of the old kind: the parent allocates 1000 blocks and forks four children that each free 400 of them, resize 50 and
// make 60 blocks of their own, of which they free 20. Prints the children's pids.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  static void* inherited[1000];
  for (int i = 0; i < 1000; i++) inherited[i] = malloc(200);
  for (int child = 0; child < 4; child++) {
    fflush(stdout);
    const pid_t pid = fork();
    if (pid) {
      int status;
      if (waitpid(pid, &status, 0) != pid || status) return 3;
      printf("%d\n", (int)pid);
      continue;
    }
    for (int i = 0; i < 400; i++) free(inherited[i]);
    for (int i = 400; i < 450; i++) inherited[i] = realloc(inherited[i], 300);
    void* own[60];
    for (int i = 0; i < 60; i++) own[i] = malloc(500);
    for (int i = 0; i < 20; i++) free(own[i]);
    _exit(0);
  }
  return 0;
}
