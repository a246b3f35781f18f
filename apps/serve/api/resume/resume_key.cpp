#include "serve/api/resume/resume_key.h"

#include "tenon/core/error.h"
#include "tenon/io/file.h"

namespace serve {
namespace {

constexpr std::size_t kLeastKey = 32, kMostKey = 4096;  // bytes

}  // namespace

std::string read_resume_key(const std::filesystem::path& file) {
  if (file.empty()) return {};
  std::string text;
  try {
    text = tenon::read_text_file(file, kMostKey);
  } catch (const tenon::Error& error) {
    throw tenon::Error(error.kind(), "--resume-key-file " + file.string(), error.what());
  }
  if (text.ends_with('\n')) text.pop_back();  // the key may have any other bytes
  if (text.size() >= kLeastKey) return text;
  throw tenon::Error(tenon::Error::Kind::invalid_file, "--resume-key-file " + file.string(),
                     "the key has fewer than " + std::to_string(kLeastKey) +
                         " bytes; make one with: (umask 077; openssl rand -hex 32 > FILE)");
}

}  // namespace serve
