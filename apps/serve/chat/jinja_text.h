// The text of a Jinja template, compared and never run.
#pragma once
#include <string>
#include <string_view>

namespace serve {

// The same for templates that differ in white space without a meaning alone: between the words of a tag, beside a
// delimiter with a minus, one newline at the end, CR LF for LF, and a newline in a string for its escape \n.
std::string normalised_jinja(std::string_view text);

}  // namespace serve
