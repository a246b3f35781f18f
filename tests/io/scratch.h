// Shared by the tests of files: a temporary folder that removes itself, and the message of an error.
#pragma once
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/error.h"

namespace tenon::test {

class Scratch {
 public:
  Scratch() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tenon-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = pattern;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::filesystem::remove(folder_ / name);  // ext4 flushes a file that is truncated and rewritten: 3 ms each time
    std::ofstream out(folder_ / name, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return folder_ / name;
  }

 private:
  std::filesystem::path folder_;
};

// The message of the tenon::Error that `act` throws; "accepted" where it throws none. Other exceptions fail the test.
template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// Whether the message is an error's and contains all the words, ignoring case.
inline bool mentions(std::string message, const std::vector<std::string>& words) {
  const auto lower = [](std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
  };
  return message != "accepted" && std::all_of(words.begin(), words.end(), [&](const std::string& word) {
           return lower(message).find(lower(word)) != std::string::npos;
         });
}

}  // namespace tenon::test
