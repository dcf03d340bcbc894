// Every entry point but the one named as argument, each in a thread of its own name and a number of times of its own. All
// blocks are freed. Where this libc has no cfree, free_sized or free_aligned_sized and nobody else has, free stands in.
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

void* blocks[100];
using Align = std::align_val_t;

template <class Allocate, class Free>
void times(int number, Allocate allocate, Free give_back) {
  for (int i = 0; i < number; i++) blocks[i] = allocate();
  for (int i = 0; i < number; i++) give_back(blocks[i]);
}

template <class Function>
Function look_up(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

struct Form {
  const char* name;
  void (*body)();
};

void with_free(void* block) { free(block); }

const Form all[] = {
    {"malloc",
     [] {
       times(
           11, [] { return malloc(100); }, with_free);
     }},
    {"calloc",
     [] {
       times(
           12, [] { return calloc(10, 10); }, with_free);
     }},
    {"realloc",
     [] {
       times(
           13, [] { return realloc(nullptr, 50); }, [](void* block) { free(realloc(block, 100)); });
     }},
    {"reallocarray",
     [] {
       times(
           14, [] { return reallocarray(nullptr, 5, 10); }, [](void* block) { free(reallocarray(block, 10, 10)); });
     }},
    {"memalign",
     [] {
       times(
           15, [] { return memalign(64, 100); }, with_free);
     }},
    {"aligned_alloc",
     [] {
       times(
           16, [] { return aligned_alloc(64, 128); }, with_free);
     }},
    {"posix_memalign",
     [] {
       times(
           17,
           [] {
             void* block;
             return posix_memalign(&block, 64, 100) ? nullptr : block;
           },
           with_free);
     }},
    {"valloc",
     [] {
       times(
           18, [] { return valloc(100); }, with_free);
     }},
    {"pvalloc",
     [] {
       times(
           19, [] { return pvalloc(100); }, with_free);
     }},
    {"usable_size",
     [] {
       times(
           20, [] { return malloc(100); },
           [](void* block) {
             if (malloc_usable_size(block) < 100) abort();
             free(block);
           });
     }},
    {"cfree",
     [] {
       auto* cfree = look_up<void (*)(void*)>("cfree");
       times(
           21, [] { return malloc(100); }, cfree ? cfree : with_free);
     }},
    {"free_sized",
     [] {
       auto* sized = look_up<void (*)(void*, size_t)>("free_sized");
       times(
           22, [] { return malloc(100); }, [&](void* block) { sized ? sized(block, 100) : free(block); });
     }},
    {"free_aligned",
     [] {
       auto* sized = look_up<void (*)(void*, size_t, size_t)>("free_aligned_sized");
       times(
           23, [] { return aligned_alloc(64, 128); }, [&](void* block) { sized ? sized(block, 64, 128) : free(block); });
     }},
    {"new",
     [] {
       times(
           31, [] { return ::operator new(100); }, [](void* block) { ::operator delete(block); });
     }},
    {"new[]",
     [] {
       times(
           32, [] { return ::operator new[](100); }, [](void* block) { ::operator delete[](block); });
     }},
    {"new nothrow",
     [] {
       times(
           33, [] { return ::operator new(100, std::nothrow); }, [](void* block) { ::operator delete(block, std::nothrow); });
     }},
    {"new[] nothrow",
     [] {
       times(
           34, [] { return ::operator new[](100, std::nothrow); },
           [](void* block) { ::operator delete[](block, std::nothrow); });
     }},
    {"delete sized",
     [] {
       times(
           35, [] { return ::operator new(100); }, [](void* block) { ::operator delete(block, 100); });
     }},
    {"delete[] sized",
     [] {
       times(
           36, [] { return ::operator new[](100); }, [](void* block) { ::operator delete[](block, 100); });
     }},
    {"new al",
     [] {
       times(
           41, [] { return ::operator new (100, Align{64}); }, [](void* block) { ::operator delete (block, Align{64}); });
     }},
    {"new[] al",
     [] {
       times(
           42, [] { return ::operator new[](100, Align{64}); }, [](void* block) { ::operator delete[](block, Align{64}); });
     }},
    {"new al nothrow",
     [] {
       times(
           43, [] { return ::operator new (100, Align{64}, std::nothrow); },
           [](void* block) { ::operator delete (block, Align{64}, std::nothrow); });
     }},
    {"new[] al nothr",
     [] {
       times(
           44, [] { return ::operator new[](100, Align{64}, std::nothrow); },
           [](void* block) { ::operator delete[](block, Align{64}, std::nothrow); });
     }},
    {"delete al sized",
     [] {
       times(
           45, [] { return ::operator new (100, Align{64}); }, [](void* block) { ::operator delete (block, 100, Align{64}); });
     }},
    {"delete[] al siz",
     [] {
       times(
           46, [] { return ::operator new[](100, Align{64}); },
           [](void* block) { ::operator delete[](block, 100, Align{64}); });
     }},
    {"delete null",
     [] {
       for (int i = 0; i < 50; i++) {
         ::operator delete(nullptr);
         ::operator delete[](nullptr);
         free(nullptr);
       }
     }},
};

void* start(void* argument) {
  const auto* form = static_cast<const Form*>(argument);
  pthread_setname_np(pthread_self(), form->name);
  form->body();
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  for (const Form& form : all) {
    // The allocator lacks this one; the next that answers is another allocator's.
    if (count > 1 && strcmp(arguments[1], form.name) == 0) continue;
    pthread_t thread;
    pthread_create(&thread, nullptr, start, const_cast<Form*>(&form));
    pthread_join(thread, nullptr);
  }
  return 0;
}
