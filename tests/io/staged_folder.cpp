// A folder gets its name when it is complete, and replaces nothing of that name.
#include "tenon/io/staged_folder.h"

#include <boost/test/unit_test.hpp>

#include "scratch.h"

BOOST_AUTO_TEST_SUITE(io_staged_folder)

using namespace tenon;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;

namespace {

std::ptrdiff_t entries(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_published_folder_has_its_files) {
  const Scratch scratch;
  for (const char* name : {"a", "b/c/d", "e/"}) {
    StagedFolder folder(scratch / name);
    BOOST_TEST(!std::filesystem::exists(scratch / name));
    std::ofstream(folder.path() / "file") << "x";
    folder.publish();
    BOOST_TEST(std::filesystem::exists(scratch / name / "file"));
    BOOST_TEST(!std::filesystem::exists(folder.path()));
  }
  BOOST_TEST(entries(scratch.folder()) == 3);
  BOOST_TEST(entries(scratch / "b" / "c") == 1);
}

BOOST_AUTO_TEST_CASE(an_unpublished_folder_leaves_nothing) {
  const Scratch scratch;
  for (const char* name : {"a", "b/c"}) {
    const StagedFolder folder(scratch / name);
    std::filesystem::create_directory(folder.path() / "below");
    std::ofstream(folder.path() / "below" / "file") << "x";
  }
  BOOST_TEST(std::filesystem::is_empty(scratch.folder()));
}

BOOST_AUTO_TEST_CASE(existing_names_are_refused_and_stay) {
  const Scratch scratch;
  scratch.write("file", "x");
  std::filesystem::create_directory(scratch / "empty");
  std::filesystem::create_symlink("nowhere", scratch / "link");
  for (const char* name : {"file", "empty", "empty/", "link"}) {
    BOOST_TEST(mentions(refusal([&] { StagedFolder(scratch / name); }), {"exists already"}), name);
  }
  BOOST_TEST(mentions(refusal([&] { StagedFolder(scratch / "file" / "below"); }), {"file: cannot be made a folder"}));
  BOOST_TEST(entries(scratch.folder()) == 3);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_taken_meanwhile_is_not_replaced) {
  const Scratch scratch;
  for (const char* name : {"a", "b"}) {
    StagedFolder folder(scratch / name);
    std::ofstream(folder.path() / "new") << "x";
    if (*name == 'a')
      std::filesystem::create_directory(scratch / name), std::ofstream(scratch / name / "old") << "y";
    else
      scratch.write(name, "y");
    BOOST_TEST(mentions(refusal([&] { folder.publish(); }), {std::string(name) + ": exists already"}));
  }
  BOOST_TEST(std::filesystem::exists(scratch / "a" / "old"));
  BOOST_TEST(!std::filesystem::exists(scratch / "a" / "new"));
  BOOST_TEST(entries(scratch.folder()) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
