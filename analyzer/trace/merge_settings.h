// What a trace itself says about how its threads are to be merged: how its streams tell time, what of its events may be
// missing.
#pragma once
#include "analyzer/trace/block_lives.h"
#include "analyzer/trace/thread_cursor.h"

namespace heapspy::trace::merge_settings {

// How long an event waits before the other threads are searched for what it waits for.
Tick patience(const Reader&);
CursorSettings cursor(const Reader&);
// `inherited` may be nullptr; else it must outlive the result.
BlockLives::Settings lives(const Reader&, const InheritedBlocks* inherited);

}  // namespace heapspy::trace::merge_settings
