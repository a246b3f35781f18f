#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/zip_entries.h"

namespace tenon::detail {

// Reads the directory at the end of an archive, and the header in front of each file.
class ZipReader {
 public:
  explicit ZipReader(const File& file) : file_(file) {}

  std::vector<ZipEntry> read() {
    find_directory();
    if (count_ > kMaxZipEntries) refuse("the directory", "has more than 1000000 files");
    if (begin_ > end_ || count_ > (end_ - begin_) / kEntryBytes) refuse("the directory", "lies outside the archive");
    if (end_ - begin_ > kMaxZipDirectory) refuse("the directory", "has more than 134217728 bytes");
    std::vector<ZipEntry> entries;
    entries.reserve(static_cast<std::size_t>(count_));
    for (std::uint64_t i = 0; i < count_; ++i) entries.push_back(next_entry(i));
    return entries;
  }

 private:
  static constexpr std::size_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46, kLocalBytes = 30;
  static constexpr std::uint32_t kEndMark = 0x06054b50, kLocatorMark = 0x07064b50, kEnd64Mark = 0x06064b50,
                                 kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
  static constexpr std::uint64_t kMost16 = 0xffff, kMost32 = 0xffffffff;  // the value is in a Zip64 record

  static_assert(std::endian::native == std::endian::little, "tenon: archives are read on little-endian machines only");

  [[noreturn]] void refuse(const std::string& what, const std::string& why) const {
    throw Error(Error::Kind::invalid_file, file_.name() + ": " + what, why + ": truncated, or no sound zip archive");
  }
  [[noreturn]] void unsupported(const std::string& what, const std::string& why) const {
    throw Error(Error::Kind::unsupported, file_.name() + ": " + what, why);
  }

  // Error where the range lies outside the file.
  std::string bytes(std::uint64_t at, std::uint64_t size, const std::string& what) const {
    if (at > file_.size() || size > file_.size() - at) refuse(what, "lies outside the archive");
    std::string out(static_cast<std::size_t>(size), '\0');
    file_.read_at(at, std::as_writable_bytes(std::span(out)));
    return out;
  }

  // The little-endian number at byte `at`, which must be in `record`.
  template <class T>
  static std::uint64_t number(std::string_view record, std::size_t at) {
    T value{};
    std::memcpy(&value, record.data() + at, sizeof(T));
    return value;
  }
  static std::uint64_t u16(std::string_view record, std::size_t at) { return number<std::uint16_t>(record, at); }
  static std::uint64_t u32(std::string_view record, std::size_t at) { return number<std::uint32_t>(record, at); }
  static std::uint64_t u64(std::string_view record, std::size_t at) { return number<std::uint64_t>(record, at); }

  // The last record of the archive. A comment of up to 65,535 bytes may follow it.
  void find_directory() {
    const std::uint64_t tail = std::min<std::uint64_t>(file_.size(), kEndBytes + kMost16);
    const std::uint64_t from = file_.size() - tail;
    const std::string last = bytes(from, tail, "the end");
    for (std::size_t at = last.size() - std::min(last.size(), kEndBytes) + 1; at-- > 0;) {
      const std::string_view record = std::string_view(last).substr(at);
      if (record.size() < kEndBytes || u32(record, 0) != kEndMark) continue;
      if (kEndBytes + u16(record, 20) != record.size()) continue;  // the mark stands in the comment
      count_ = u16(record, 10);
      begin_ = u32(record, 16);
      end_ = begin_ + u32(record, 12);
      const bool wide = count_ == kMost16 || begin_ == kMost32 || u32(record, 12) == kMost32;
      if (u16(record, 4) != 0 && u16(record, 4) != kMost16) unsupported("the end", "the archive has several parts");
      if (wide) read_wide_end(from + at);
      if (end_ > file_.size()) refuse("the directory", "lies outside the archive");
      return;
    }
    refuse("the end", "has no directory of files");
  }

  // Zip64: more than 65,535 files, or more than 4 GiB. at: where the usual record begins.
  void read_wide_end(std::uint64_t at) {
    if (at < kLocatorBytes) refuse("the end", "has no Zip64 record");
    const std::string locator = bytes(at - kLocatorBytes, kLocatorBytes, "the Zip64 locator");
    if (u32(locator, 0) != kLocatorMark) return;  // the usual record is right after all
    const std::string record = bytes(u64(locator, 8), kEnd64Bytes, "the Zip64 record");
    if (u32(record, 0) != kEnd64Mark) refuse("the Zip64 record", "does not begin with its mark");
    count_ = u64(record, 32);
    begin_ = u64(record, 48);
    if (u64(record, 40) > file_.size()) refuse("the directory", "lies outside the archive");
    end_ = begin_ > file_.size() ? begin_ : begin_ + u64(record, 40);
  }

  ZipEntry next_entry(std::uint64_t index) {
    std::string what = "file " + std::to_string(index);
    if (end_ - begin_ < kEntryBytes) refuse(what, "lies outside the directory");
    const std::string record = bytes(begin_, kEntryBytes, what);
    if (u32(record, 0) != kEntryMark) refuse(what, "does not begin with its mark");
    const std::uint64_t name_size = u16(record, 28), extra_size = u16(record, 30), comment_size = u16(record, 32);
    if (end_ - begin_ - kEntryBytes < name_size + extra_size + comment_size) refuse(what, "lies outside the directory");
    if (name_size > kMaxZipName) refuse(what, "has a name of more than 1024 bytes");
    ZipEntry entry{.name = bytes(begin_ + kEntryBytes, name_size, what)};
    what = "file " + printable(entry.name);
    if (u16(record, 8) & 1) unsupported(what, "is encrypted");
    if (u16(record, 10) != 0)
      unsupported(what, "is compressed, which torch.save never does; `unzip` it and pack it again with `zip -0 -r`");
    const std::string extra = bytes(begin_ + kEntryBytes + name_size, extra_size, what);
    std::array<std::uint64_t, 3> sizes = {u32(record, 24), u32(record, 20), u32(record, 42)};  // stored, raw, offset
    read_wide_sizes(extra, sizes, what);
    if (sizes[0] != sizes[1]) refuse(what, "has two sizes");
    place(entry, sizes[2], sizes[0], what);
    begin_ += kEntryBytes + name_size + extra_size + comment_size;
    return entry;
  }

  // The extra field 1 has, in this order, those of the values that do not fit into 32 bits.
  void read_wide_sizes(std::string_view extra, std::array<std::uint64_t, 3>& sizes, const std::string& what) const {
    constexpr std::size_t kFieldHead = 4;
    while (extra.size() >= kFieldHead) {
      const std::uint64_t id = u16(extra, 0);
      const auto size = static_cast<std::size_t>(u16(extra, 2));
      if (size > extra.size() - kFieldHead) refuse(what, "has an extra field beyond its end");
      std::string_view field = extra.substr(kFieldHead, size);
      extra.remove_prefix(kFieldHead + size);
      if (id != 1) continue;
      for (std::uint64_t& value : sizes) {
        if (value != kMost32) continue;
        if (field.size() < sizeof(std::uint64_t)) refuse(what, "lacks a size of 64 bits");
        value = u64(field, 0);
        field.remove_prefix(sizeof(std::uint64_t));
      }
    }
  }

  // The bytes of a file begin after its own header, whose name and extra fields may have other lengths.
  void place(ZipEntry& entry, std::uint64_t header, std::uint64_t size, const std::string& what) const {
    const std::string local = bytes(header, kLocalBytes, what);
    if (u32(local, 0) != kLocalMark) refuse(what, "does not begin with its mark");
    entry.begin = header + kLocalBytes + u16(local, 26) + u16(local, 28);
    if (entry.begin > file_.size() || size > file_.size() - entry.begin) refuse(what, "lies outside the archive");
    entry.end = entry.begin + size;
  }

  const File& file_;
  std::uint64_t count_ = 0, begin_ = 0, end_ = 0;  // of the directory; begin_: of the next entry
};

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE bool is_zip(const File& file) {
  std::array<char, 4> magic{};
  if (file.size() < magic.size()) return false;
  file.read_at(0, std::as_writable_bytes(std::span(magic)));
  return std::string_view(magic.data(), magic.size()) == "PK\3\4";
}

TENON_INLINE std::vector<ZipEntry> read_zip_entries(const File& file) { return detail::ZipReader(file).read(); }

}  // namespace tenon
