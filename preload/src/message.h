// What the recorder says on stderr: one line each, beginning "heapspy: ". HEAPSPY_LOG chooses which.
#pragma once

namespace heapspy {

enum class LogLevel { off, error, info };

namespace message {

void set_level(LogLevel level);
// Messages go to what descriptor 2 is now, and to nothing that the program may put there later.
void remember_stderr();

void bad_setting(const char* name, const char* value, const char* accepted);
void trigger_without_ring();
void no_libunwind();
void no_stacks();
void no_java_frames(const char* missing);
void no_java_lines();
void cannot_create_trace(const char* path, long error);
void cannot_map_trace(const char* path, long error);
void trace_folder_gone(const char* path);
void no_fork_protection();
void recording_to(const char* path);
void copy_frozen(const char* path);
void recording_stopped(const char* path, const char* why);

}  // namespace message
}  // namespace heapspy
