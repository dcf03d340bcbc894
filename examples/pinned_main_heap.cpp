// The right verdict: pinned pages in the main heap, by the small blocks that open_session() keeps.
//
// One thread. Every session has a request buffer, freed when the request is answered, and a small record that lives on.
// Both come from the same heap, one after the other, so that each page of freed buffers also holds a live record and cannot
// be given back: `heapspy trim` returns next to nothing, and MALLOC_ARENA_MAX does nothing at all (there is one arena).
// Nor does the memory serve again: the export that follows needs larger buffers than fit between two records.
//
// An allocator that keeps sizes apart (jemalloc) uses the buffers' pages for the export: its peak is lower. With --without,
// the records are allocated before the buffers, and the pages come free.
//
// Arguments: sessions (default 40 000), bytes of a request buffer (default 3900).
#include <vector>

#include "stage.h"

namespace {

struct Session {
  char user[32];
  long number;
  char* buffer;
};

[[gnu::noinline]] Session* open_session(long number) {
  auto* session = static_cast<Session*>(std::malloc(sizeof(Session)));
  if (session == nullptr) std::abort();
  std::snprintf(session->user, sizeof session->user, "user-%ld", number);
  session->number = number;
  session->buffer = nullptr;
  return session;
}

[[gnu::noinline]] char* buffer_of(std::size_t bytes) {
  auto* buffer = static_cast<char*>(std::malloc(bytes));
  if (buffer == nullptr) std::abort();
  std::memset(buffer, 1, bytes);
  return buffer;
}

}  // namespace

int main(int argc, char** argv) {
  const stage::Arguments arguments = stage::parse(argc, argv, "[SESSIONS [BYTES]] [--without]");
  const long count = arguments.get(0, 40'000);
  const auto bytes = static_cast<std::size_t>(arguments.get(1, 3900));
  std::vector<Session*> sessions(static_cast<std::size_t>(count));
  stage::say("at the start");

  for (long i = 0; i < count; i++) {
    sessions[static_cast<std::size_t>(i)] = open_session(i);
    if (!arguments.without) sessions[static_cast<std::size_t>(i)]->buffer = buffer_of(bytes);
  }
  if (arguments.without)
    for (Session* session : sessions) session->buffer = buffer_of(bytes);
  stage::say("every session open, every request running");

  for (Session* session : sessions) {
    std::free(session->buffer);
    session->buffer = nullptr;
  }
  stage::say("requests answered, sessions idle");

  std::vector<char*> rows;
  for (long i = 0; i < count / 2; i++) rows.push_back(buffer_of(bytes * 2));
  stage::say("an export runs");
  for (char* row : rows) std::free(row);
  stage::say("the export is done");

  stage::hold(arguments);
  stage::keep(sessions.data());  // the sessions live to the end
}
