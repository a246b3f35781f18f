// The page in the browser: ui/page.html, which the build puts into the program.
#pragma once

namespace serve {

extern const char* const kPage;

}  // namespace serve
