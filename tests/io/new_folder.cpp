// A folder that nothing was written to is removed, with the parents that were created for it.
#include "tenon/io/new_folder.h"

#include <boost/test/unit_test.hpp>

#include "scratch.h"

BOOST_AUTO_TEST_SUITE(io_new_folder)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

BOOST_AUTO_TEST_CASE(created_folders_are_removed_if_empty) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "old");
  for (const char* name : {"a/b/c", "a/b/c/", "old/b", "./a/b", "a/../b"}) {
    {
      const NewFolder folder(scratch / name);
      BOOST_TEST(std::filesystem::is_directory(scratch / name));
    }
    BOOST_TEST(std::filesystem::is_empty(scratch / "old"), name);
    BOOST_TEST(std::distance(std::filesystem::directory_iterator(scratch.folder()), {}) == 1, name);
  }
}

BOOST_AUTO_TEST_CASE(existing_and_used_folders_stay) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "old");
  { const NewFolder folder(scratch / "old"); }
  BOOST_TEST(std::filesystem::exists(scratch / "old"));
  {
    const NewFolder folder(scratch / "a/b/c");
    scratch.write("a/file", "x");
  }
  BOOST_TEST(std::filesystem::exists(scratch / "a/file"));
  BOOST_TEST(!std::filesystem::exists(scratch / "a/b"));
}

BOOST_AUTO_TEST_CASE(errors_name_the_folder) {
  const Scratch scratch;
  scratch.write("file", "x");
  BOOST_TEST(mentions(refusal([&] { NewFolder(scratch / "file"); }), {"file: cannot be made a folder"}));
  BOOST_TEST(mentions(refusal([&] { NewFolder(scratch / "file" / "below"); }), {"below: cannot be made a folder"}));
  BOOST_TEST(mentions(refusal([&] { NewFolder(scratch / "a" / std::string(300, 'x')); }), {"cannot be made a folder"}));
  BOOST_TEST(!std::filesystem::exists(scratch / "a"));
  BOOST_TEST(std::filesystem::exists(scratch / "file"));
}

BOOST_AUTO_TEST_SUITE_END()
