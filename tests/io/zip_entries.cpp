// Directories of zip archives, made here: usual ones, with Zip64 records, and damaged ones.
#include "tenon/io/zip_entries.h"

#include <boost/test/unit_test.hpp>

#include "scratch.h"

BOOST_AUTO_TEST_SUITE(io_zip_entries)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

template <class T>
std::string bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// An archive of two files, `first` with "hello" and "b/c" with nothing.
struct Archive {
  std::uint16_t method = 0, flags = 0, parts = 0, extra = 0;  // extra: bytes in the header in front of a file
  bool wide = false;                                          // all sizes and offsets in Zip64 records
  std::uint32_t longer = 0;                                   // added to the raw size in the directory
  std::string comment = {}, first = "a";

  std::string text() const {
    std::string all, directory;
    for (const auto& [name, content] : {std::pair<std::string, std::string>(first, "hello"), {"b/c", ""}}) {
      const auto size = static_cast<std::uint32_t>(content.size()), at = static_cast<std::uint32_t>(all.size());
      all += "PK\3\4" + bytes<std::uint16_t>(45) + bytes(flags) + bytes(method) + std::string(8, '\0') + bytes(size) +
             bytes(size) + bytes(static_cast<std::uint16_t>(name.size())) + bytes(extra) + name +
             std::string(extra, 'x') + content;
      const std::string record = wide
                                     ? bytes<std::uint16_t>(1) + bytes<std::uint16_t>(24) + bytes<std::uint64_t>(size) +
                                           bytes<std::uint64_t>(size + longer) + bytes<std::uint64_t>(at)
                                     : "";
      constexpr std::uint32_t most = 0xffffffff;
      directory += "PK\1\2" + bytes<std::uint16_t>(45) + bytes<std::uint16_t>(45) + bytes(flags) + bytes(method) +
                   std::string(8, '\0') + bytes(wide ? most : size + longer) + bytes(wide ? most : size) +
                   bytes(static_cast<std::uint16_t>(name.size())) + bytes(static_cast<std::uint16_t>(record.size())) +
                   std::string(10, '\0') + bytes(wide ? most : at) + name + record;
    }
    const auto begin = static_cast<std::uint32_t>(all.size()), size = static_cast<std::uint32_t>(directory.size());
    all += directory;
    if (wide) {
      const std::uint64_t record = all.size();
      all += "PK\6\6" + std::string(20, '\0') + bytes<std::uint64_t>(2) + bytes<std::uint64_t>(2) +
             bytes<std::uint64_t>(size) + bytes<std::uint64_t>(begin);
      all += "PK\6\7" + std::string(4, '\0') + bytes(record) + bytes<std::uint32_t>(1);
    }
    constexpr std::uint32_t most = 0xffffffff;
    all += "PK\5\6" + bytes(parts) + bytes<std::uint16_t>(0) + bytes<std::uint16_t>(wide ? 0xffff : 2) +
           bytes<std::uint16_t>(wide ? 0xffff : 2) + bytes(wide ? most : size) + bytes(wide ? most : begin) +
           bytes(static_cast<std::uint16_t>(comment.size())) + comment;
    return all;
  }
};

std::vector<ZipEntry> read(const std::string& text) {
  const Scratch scratch;
  return read_zip_entries(File(scratch.write("made.zip", text)));
}

std::string refused(const std::string& text) {
  return refusal([&] { read(text); });
}

void check_entries(const std::string& text) {
  const std::vector<ZipEntry> entries = read(text);
  BOOST_REQUIRE(entries.size() == 2u);
  BOOST_TEST(entries[0].name == "a");
  BOOST_TEST(text.substr(entries[0].begin, entries[0].end - entries[0].begin) == "hello");
  BOOST_TEST(entries[1].name == "b/c");
  BOOST_TEST(entries[1].begin == entries[1].end);
}

}  // namespace

BOOST_AUTO_TEST_CASE(files_are_found_by_all_records) {
  check_entries(Archive{}.text());
  check_entries(Archive{.extra = 37}.text());
  check_entries(Archive{.wide = true}.text());
  check_entries(Archive{.comment = "PK\5\6 is no end"}.text());
  check_entries(Archive{.wide = true, .comment = std::string(65535, 'c')}.text());
}

BOOST_AUTO_TEST_CASE(other_archives_are_refused_by_name) {
  BOOST_TEST(mentions(refused(Archive{.method = 8}.text()), {"a", "compressed"}));
  BOOST_TEST(mentions(refused(Archive{.flags = 1}.text()), {"a", "encrypted"}));
  BOOST_TEST(mentions(refused(Archive{.parts = 1}.text()), {"parts"}));
  BOOST_TEST(mentions(refused(Archive{.longer = 1}.text()), {"a", "two sizes"}));
  BOOST_TEST(mentions(refused(Archive{.wide = true, .longer = 1}.text()), {"a", "two sizes"}));
  BOOST_TEST(mentions(refused(Archive{.first = std::string(1025, 'n')}.text()), {"more than 1024 bytes"}));
}

BOOST_AUTO_TEST_CASE(damaged_archives_are_refused) {
  for (const bool wide : {false, true}) {
    const std::string whole = Archive{.wide = wide}.text();
    for (std::size_t size = 0; size < whole.size(); ++size)
      BOOST_TEST(mentions(refused(whole.substr(0, size)), {"made.zip"}), size);
    // Any byte of any record may have any value: the files lie within the archive, or it is refused.
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (const char value : {'\0', '\1', '\x7f', '\xff'}) {
        std::string text = whole;
        text[at] = value;
        const Scratch scratch;
        const File file(scratch.write("made.zip", text));
        try {
          for (const ZipEntry& each : read_zip_entries(file)) {
            BOOST_TEST(each.begin <= each.end);
            BOOST_TEST(each.end <= file.size());
          }
        } catch (const Error& error) {
          BOOST_CHECK(error.kind() != Error::Kind::internal);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
