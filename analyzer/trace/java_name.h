// Java methods as the JVM spells them (JVMS 4.2, 4.3.3) and as people do.
#pragma once
#include <string>
#include <string_view>

namespace heapspy::trace {

// "java/util/zip/Inflater.init(Z)J" → "java.util.zip.Inflater.init(boolean)": without the number of a hidden class, which is
// another in each run, and without the packages of parameters. What is no such name stays as it is.
std::string java_name(std::string_view spelled);

}  // namespace heapspy::trace
