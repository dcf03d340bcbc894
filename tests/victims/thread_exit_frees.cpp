// 20 threads, one after another and then 20 at a time, that free in their exit destructors. Each: 100 mallocs; a thread_local's
// destructor frees 30 of them; a pthread key's frees 50, mallocs and frees 7 in a second round, and frees the last 20 in a
// third.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int kThreads = 20;
pthread_key_t key;

struct Blocks {
  void* blocks[100];
  int round;
};

void thread_ends(void* argument) {
  auto* mine = static_cast<Blocks*>(argument);
  switch (mine->round++) {
    case 0:
      for (int i = 30; i < 80; i++) free(mine->blocks[i]);
      break;
    case 1:
      for (int i = 0; i < 7; i++) free(malloc(100));
      break;
    default:
      for (int i = 80; i < 100; i++) free(mine->blocks[i]);
      return;
  }
  pthread_setspecific(key, mine);
}

struct FreesThirty {
  Blocks* mine = nullptr;
  ~FreesThirty() {
    for (int i = 0; i < 30; i++) free(mine->blocks[i]);
  }
};
thread_local FreesThirty frees_thirty;

Blocks all[2 * kThreads];

void* work(void* argument) {
  auto* mine = static_cast<Blocks*>(argument);
  char name[16];
  snprintf(name, sizeof name, "exits-%02d", static_cast<int>(mine - all));
  pthread_setname_np(pthread_self(), name);
  for (void*& block : mine->blocks) block = malloc(40);
  frees_thirty.mine = mine;
  pthread_setspecific(key, mine);
  return nullptr;
}

}  // namespace

int main() {
  pthread_key_create(&key, thread_ends);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; i++) {
    pthread_create(&threads[i], nullptr, work, &all[i]);
    pthread_join(threads[i], nullptr);
  }
  for (int i = 0; i < kThreads; i++) pthread_create(&threads[i], nullptr, work, &all[kThreads + i]);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return 0;
}
