#include "tenon/io/file.h"

#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>

#include "scratch.h"

BOOST_AUTO_TEST_SUITE(io_file)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

BOOST_AUTO_TEST_CASE(printable_text_is_ascii_and_bounded) {
  BOOST_TEST(printable("wte.weight") == "wte.weight");
  BOOST_TEST(printable("a\nb\xff\x7f") == "a\\x0ab\\xff\\x7f");
  BOOST_TEST(printable(std::string_view("\0", 1)) == "\\x00");
  BOOST_TEST(printable("0123456789", 10) == "0123456789");
  BOOST_TEST(printable("0123456789a", 10) == "01234...6789a");
  BOOST_TEST(printable(std::string(1'000'000, '\n'), 10).size() == 43u);
}

BOOST_AUTO_TEST_CASE(errors_name_the_file_and_not_its_folders) {
  BOOST_TEST(file_name_of("/secret/host/config.json") == "config.json");
  BOOST_TEST(file_name_of("/secret/host/") == "host");
  const std::string message = refusal([] { File("/secret/host/config.json"); });
  BOOST_TEST(message == "config.json: the file does not exist");
}

BOOST_AUTO_TEST_CASE(an_entry_exists_even_as_a_dangling_link) {
  const Scratch scratch;
  BOOST_TEST(entry_exists(scratch.folder()));
  BOOST_TEST(entry_exists(scratch.write("data", "")));
  BOOST_TEST(!entry_exists(scratch / "link"));
  std::filesystem::create_symlink("nowhere", scratch / "link");
  BOOST_TEST(entry_exists(scratch / "link"));
  BOOST_TEST(!entry_exists(scratch / "data/below"));  // no folder
  BOOST_TEST(!entry_exists(""));
}

BOOST_AUTO_TEST_CASE(reads_ranges_exactly) {
  const Scratch scratch;
  std::string bytes(100'000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 256);
  const File file(scratch.write("data", bytes));
  BOOST_TEST(file.size() == bytes.size());
  for (const auto& [offset, count] :
       {std::pair(0u, 100'000u), {0u, 0u}, {99'999u, 1u}, {100'000u, 0u}, {4'095u, 8'193u}}) {
    std::string out(count, '?');
    file.read_at(offset, std::as_writable_bytes(std::span(out)));
    BOOST_TEST((out == bytes.substr(offset, count)));
  }
  BOOST_TEST(read_text_file(scratch / "data", 100'000) == bytes);
}

BOOST_AUTO_TEST_CASE(ranges_past_the_end_are_refused) {
  const Scratch scratch;
  const File file(scratch.write("data", "0123456789"));
  std::byte out[11];
  for (const auto& [offset, count] :
       {std::pair<std::uint64_t, std::size_t>(0, 11), {10, 1}, {11, 0}, {~0ull, 1}, {~0ull - 3, 8}})
    BOOST_TEST(mentions(refusal([&] { file.read_at(offset, std::span(out, count)); }), {"data", "after the end"}));
}

BOOST_AUTO_TEST_CASE(only_regular_files_are_opened_and_none_of_the_rest_blocks) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "folder");
  BOOST_TEST_REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  std::filesystem::create_symlink("fifo", scratch / "to_fifo");
  std::filesystem::create_symlink("nowhere", scratch / "dangling");
  std::filesystem::create_symlink("loop", scratch / "loop");
  BOOST_TEST(mentions(refusal([&] { File(scratch / "folder"); }), {"folder", "regular"}));
  BOOST_TEST(mentions(refusal([&] { File(scratch / "fifo"); }), {"fifo", "regular"}));
  BOOST_TEST(mentions(refusal([&] { File(scratch / "to_fifo"); }), {"to_fifo", "regular"}));
  BOOST_TEST(mentions(refusal([&] { File(scratch / "dangling"); }), {"dangling", "not exist"}));
  BOOST_TEST(mentions(refusal([&] { File(scratch / "loop"); }), {"loop", "cannot be opened"}));
  BOOST_TEST(mentions(refusal([&] { File(scratch / std::string(300, 'x')); }), {"xxx", "cannot be opened"}));
  BOOST_TEST(mentions(refusal([&] { File("/dev/zero"); }), {"zero", "device", "regular"}));
}

BOOST_AUTO_TEST_CASE(links_to_files_are_followed) {
  const Scratch scratch;
  scratch.write("blob", "text");
  std::filesystem::create_symlink("blob", scratch / "config.json");
  const File file(scratch / "config.json");
  BOOST_TEST(file.name() == "config.json");
  BOOST_TEST(file.size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_file_that_shrinks_is_an_error_and_no_crash) {
  const Scratch scratch;
  const auto path = scratch.write("data", std::string(10'000, 'x'));
  const File file(path);
  std::filesystem::resize_file(path, 5'000);
  std::string out(10'000, '\0');
  BOOST_TEST(
      mentions(refusal([&] { file.read_at(0, std::as_writable_bytes(std::span(out))); }), {"data", "truncated while"}));
  BOOST_TEST(mentions(refusal([&] { file.verify_unchanged(); }), {"data", "changed while"}));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_written_to_is_noticed) {
  const Scratch scratch;
  const auto path = scratch.write("data", "0123456789");
  const File file(path);
  file.verify_unchanged();
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::hours(1));
  BOOST_TEST(mentions(refusal([&] { file.verify_unchanged(); }), {"data", "changed while"}));
}

BOOST_AUTO_TEST_CASE(a_file_past_the_limit_is_refused_unread) {
  const Scratch scratch;
  scratch.write("config.json", "");
  std::filesystem::resize_file(scratch / "config.json", 1ull << 40);  // sparse
  BOOST_TEST(mentions(refusal([&] { read_text_file(scratch / "config.json", 1 << 20); }),
                      {"config.json", "1048576", "1099511627776"}));
}

BOOST_AUTO_TEST_CASE(moving_hands_the_descriptor_on) {
  const Scratch scratch;
  File a(scratch.write("a", "aaaa")), b(scratch.write("b", "bb"));
  a = std::move(b);
  char out[2];
  a.read_at(0, std::as_writable_bytes(std::span(out)));
  BOOST_TEST(a.name() == "b");
  BOOST_TEST(a.size() == 2u);
  BOOST_TEST(std::memcmp(out, "bb", 2) == 0);
  const File c(std::move(a));
  c.read_at(0, std::as_writable_bytes(std::span(out)));
}

BOOST_AUTO_TEST_SUITE_END()
