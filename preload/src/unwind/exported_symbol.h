// Where a loaded library has an exported variable, by its own hash table: dlsym takes locks that the caller of a hook may hold.
#pragma once

namespace heapspy::unwind {

// `library`: the loader's link_map of it. nullptr: not exported.
const void* exported_symbol(const void* library, const char* name);

}  // namespace heapspy::unwind
