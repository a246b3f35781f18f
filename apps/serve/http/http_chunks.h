// A chunked body, decoded so strictly that its length means one thing only. (strtoul, which httplib 0.11.4 uses, takes
// "-1" and "0x10" for sizes.)
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "serve/http/http_limits.h"

namespace serve {

class HttpChunks {
 public:
  explicit HttpChunks(const HttpLimits& limits) : limits_(limits) {}

  // Takes off the front of `received` what it can use now and appends data to `body`. 0, or the status to refuse with.
  int feed(std::string_view& received, std::string& body);

  bool complete() const { return state_ == State::complete; }  // trailers, which are dropped, included

 private:
  enum class State { size, data, data_end, trailers, complete };

  int take_line(std::string_view line, std::size_t body_bytes);
  int take_size(std::string_view line, std::size_t body_bytes);
  int take_trailer(std::string_view line);

  const HttpLimits& limits_;
  State state_ = State::size;
  std::size_t left_ = 0;                                 // of the chunk
  std::size_t extension_bytes_ = 0, trailer_bytes_ = 0;  // so far
  int trailer_lines_ = 0;
};

}  // namespace serve
