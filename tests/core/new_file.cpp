// A new file has its name when it is whole, and not before; an abandoned one leaves nothing.
#define BOOST_TEST_MODULE core_new_file
#include "tenon/core/new_file.h"

#include <boost/test/unit_test.hpp>
#include <optional>

#include "scratch.h"

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {
std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }
}  // namespace

BOOST_AUTO_TEST_CASE(it_appears_when_it_is_published) {
  const Scratch scratch;
  scratch.write("a", "old");
  {
    NewFile file(scratch / "a"), other(scratch / "a");  // two at once do not meet
    other.write_at(0, bytes("no"));
    file.write_at(3, bytes("new"));
    file.write_at(0, bytes("the"));
    BOOST_TEST(read_text_file(scratch / "a", 100) == "old");
    NewFile moved(std::move(file));
    moved.publish();
    BOOST_TEST(read_text_file(scratch / "a", 100) == "thenew");
  }
  BOOST_TEST(read_text_file(scratch / "a", 100) == "thenew");
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(scratch.folder()), {}) == 1);
}

BOOST_AUTO_TEST_CASE(what_the_system_refuses_names_the_file) {
  const Scratch scratch;
  BOOST_TEST(mentions(refusal([&] { NewFile(scratch / "none" / "b"); }), {"b: cannot be created", "No such file"}));
  std::filesystem::create_directory(scratch / "c");
  NewFile onto_folder(scratch / "c");
  BOOST_TEST(mentions(refusal([&] { onto_folder.publish(); }), {"c: cannot get its name", "directory"}));
}
