#include "serve/api/resume/resumable_writer.h"

#include <string_view>

namespace serve {

void ResumableWriter::bind_adapters(const std::string& digests) {
  seal_.bind_adapters(digests);
  if (after_ && !is_checked_) seal_.check_contents(*after_);
}

void ResumableWriter::take(const tenon::Event& event) {
  writer_->take(event);
  add(writer_->streamed());
}

std::string ResumableWriter::end_of_stream() {
  add(writer_->end_of_stream());
  return streamed();
}

void ResumableWriter::add(std::string_view events) {
  constexpr std::string_view kEnd = "\n\n";  // JSON on one line has none within
  while (!events.empty()) {
    const std::size_t size = events.find(kEnd) + kEnd.size();
    ++next_.events;
    if (!after_ || next_.events > after_->place.events)
      streamed_.append("id: ").append(seal_.text(next_)).append("\n").append(events.substr(0, size));
    events.remove_prefix(size);
  }
}

}  // namespace serve
