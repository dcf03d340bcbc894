// Where libheapspy.so and heapspy-replayer are: beside this program, in the build tree and where it is installed.
#pragma once
#include <string>
#include <vector>

namespace heapspy::cli {

// Folders to look in, for a program in `folder` (…/bin): the best first.
std::vector<std::string> library_folders(const std::string& folder);

// Absolute path of libheapspy.so. Throws Failure when it is nowhere, or when LD_PRELOAD cannot name it.
std::string find_recorder_library();

// Absolute path of heapspy-replayer, which lies beside it. Throws Failure when it is nowhere.
std::string find_replayer();

// LD_PRELOAD with `library` before what is there already ("" : nothing).
std::string preload_first(const std::string& library, const std::string& present);

}  // namespace heapspy::cli
