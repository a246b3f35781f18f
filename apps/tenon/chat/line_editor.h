// The line editor of libedit.
#pragma once
#include <memory>

#include "chat/line_reader.h"

namespace program {

// Null if the program was built without libedit.
std::unique_ptr<LineReader> make_line_editor(const LineReaderOptions& options);

}  // namespace program
