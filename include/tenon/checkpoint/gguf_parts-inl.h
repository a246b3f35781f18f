#pragma once
#include <algorithm>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "tenon/checkpoint/gguf_parts.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/fields.h"
#include "tenon/io/json.h"

namespace tenon::detail {

inline constexpr int kMostGgufParts = 65535;  // split.count is a u16
inline constexpr std::string_view kGgufExtension = ".gguf";

// "00001"; of more than five digits, all.
inline std::string five_digits(int number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

// part: from 1.
inline std::string gguf_part_name(const std::string& stem, int part, int count) {
  return stem + "-" + five_digits(part) + "-of-" + five_digits(count) + std::string(kGgufExtension);
}

TENON_INLINE std::optional<GgufPartName> gguf_part_of(std::string_view name) {
  const std::string whole(name);
  const auto number_before = [&]() -> int {  // takes five digits from the end
    int number = 0;
    if (name.size() < 5) return 0;
    const std::string_view digits = name.substr(name.size() - 5);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + 5, number);
    name.remove_suffix(5);
    return error == std::errc() && end == digits.data() + 5 ? number : 0;
  };
  const auto take = [&](std::string_view word) {
    if (!name.ends_with(word)) return false;
    name.remove_suffix(word.size());
    return true;
  };
  if (!take(kGgufExtension)) return std::nullopt;
  const int count = number_before();
  if (count < 1 || !take("-of-")) return std::nullopt;
  const int part = number_before();
  if (part < 1 || part > count || !take("-") || name.empty()) return std::nullopt;
  GgufPartName out{std::string(name), part, count};
  return gguf_part_name(out.stem, part, count) == whole ? std::optional(out) : std::nullopt;  // no "-0001"
}

TENON_INLINE std::vector<std::filesystem::path> gguf_models_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> out;
  std::error_code failed;
  for (auto each = std::filesystem::directory_iterator(folder, failed);
       !failed && each != std::filesystem::directory_iterator(); each.increment(failed)) {
    const std::string name = each->path().filename().string();
    std::error_code ignored;
    if (!name.ends_with(kGgufExtension) || name.find("mmproj") != name.npos || !each->is_regular_file(ignored))
      continue;
    const auto part = gguf_part_of(name);
    if (!part || part->part == 1) out.push_back(each->path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Opens the other parts of a model that says it has several.
class GgufParts {
 public:
  GgufParts(const std::filesystem::path& path, GgufFiles& out)
      : path_(path),
        out_(out),
        metadata_(*out.header.metadata, out.files.front().name()),
        count_(metadata_.integer(kCount, 0, kMostGgufParts, 0)) {}

  void open() {
    if (count_ <= 1) return;
    const std::string stem = check_first();
    for (int part = 2; part <= count_; ++part) add(gguf_part_name(stem, part, count_), part);
    check_tensors();
  }

 private:
  static constexpr const char* kNumber = "split.no";
  static constexpr const char* kCount = "split.count";
  static constexpr const char* kTensors = "split.tensors.count";

  std::string place(int part) const { return "part " + std::to_string(part) + " of " + std::to_string(count_); }

  // The stem of the names. Error unless the file is the first part and has its name.
  std::string check_first() const {
    const int part = metadata_.integer(kNumber, 0, count_ - 1) + 1;
    const auto named = gguf_part_of(path_.filename().string());
    const bool fits = named && named->part == part && named->count == count_;
    if (part != 1)
      throw Error(Error::Kind::io, metadata_.where(kNumber),
                  "the file is " + place(part) + "; name the first" +
                      (fits ? ", " + printable(gguf_part_name(named->stem, 1, count_)) : " part of the model"));
    if (!fits)
      throw Error(Error::Kind::io, metadata_.where(kCount),
                  "the file is " + place(1) + ", so its name must end with " + gguf_part_name("", 1, count_) +
                      ": the other parts are found by it");
    return named->stem;
  }

  void add(const std::string& name, int part) {
    const std::filesystem::path path = path_.parent_path() / name;
    std::error_code failed;
    if (!std::filesystem::exists(path, failed))
      throw Error(Error::Kind::io, file_name_of(path),
                  "there is no such file; it is " + place(part) + " of the model, and must lie beside " +
                      out_.files.front().name());
    File file(path);
    const GgufHeader header = read_gguf_header(file);
    const Fields metadata(*header.metadata, file.name());
    if (const int found = metadata.integer(kNumber, 0, kMostGgufParts); found != part - 1)
      metadata.refuse(kNumber,
                      "is " + std::to_string(found) + ", must be " + std::to_string(part - 1) + " in " + place(part));
    if (const int found = metadata.integer(kCount, 0, kMostGgufParts, count_); found != count_)
      metadata.refuse(kCount, "is " + std::to_string(found) + ", but " + std::to_string(count_) + " in " +
                                  out_.files.front().name());
    for (TensorInfo tensor : header.tensors) {
      tensor.shard = part - 1;
      out_.header.tensors.push_back(std::move(tensor));
    }
    out_.files.push_back(std::move(file));
  }

  void check_tensors() const {
    const std::vector<TensorInfo>& tensors = out_.header.tensors;
    std::set<std::string_view> names;
    for (const TensorInfo& tensor : tensors)
      if (!names.insert(tensor.name).second)
        refuse_file(out_.files[static_cast<std::size_t>(tensor.shard)].name() + ": " + printable(tensor.name),
                    "is in another part, too");
    const int expected = metadata_.integer(kTensors, 0, static_cast<int>(kMaxTensors));
    if (static_cast<std::size_t>(expected) != tensors.size())
      metadata_.refuse(kTensors, "is " + std::to_string(expected) + ", but the parts have " +
                                     std::to_string(tensors.size()) + " tensors");
  }

  const std::filesystem::path& path_;
  GgufFiles& out_;
  const Fields metadata_;
  int count_;
};

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE GgufFiles open_gguf(const std::filesystem::path& path) {
  GgufFiles out;
  out.files.emplace_back(path);
  out.header = read_gguf_header(out.files.front());
  detail::GgufParts(path, out).open();
  return out;
}

}  // namespace tenon
