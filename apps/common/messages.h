// Where the lines of say() go.
#pragma once
#include <functional>
#include <string_view>

namespace program {

// From now on lines of say(), with their newline, go to `writer` instead of stderr. Not while another thread says
// something.
void say_by(std::function<void(std::string_view line)> writer);

}  // namespace program
