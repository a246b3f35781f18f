// The destination of the lines of say().
#pragma once
#include <functional>
#include <string_view>

namespace program {

// From now on the lines of say(), with their newline, go to `writer` instead of stderr. Not safe while another thread
// is in say().
void say_by(std::function<void(std::string_view line)> writer);

}  // namespace program
