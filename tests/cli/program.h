// Runs the program `heapspy` that was built beside this test.
#pragma once
#include <string>
#include <vector>

namespace heapspy::cli_test {

struct Ran {
  int status = 0;  // exit status, 128 + N for signal N
  std::string out, err;
};

std::string bin_folder();
// `variables`: NAME=VALUE on top of this process's environment.
Ran heapspy(const std::vector<std::string>& arguments, const std::vector<std::string>& variables = {});
// Whether libheapspy.so was built too.
bool recorder_is_there();

}  // namespace heapspy::cli_test
