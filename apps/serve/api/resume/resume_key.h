// The secret that replicas share, with which they write and check ids of streams.
#pragma once
#include <filesystem>
#include <string>

namespace serve {

// The key of --resume-key-file; empty where the path is. tenon::Error where the file cannot be read, or is no key.
std::string read_resume_key(const std::filesystem::path& file);

}  // namespace serve
