// A new file gets its name when it is complete, not before. An abandoned file leaves nothing.
#include "tenon/io/new_file.h"
#include <fcntl.h>

#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <csignal>

#include "scratch.h"

BOOST_AUTO_TEST_SUITE(io_new_file)

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
    NewFile file(scratch / "a"), other(scratch / "a");  // two writers of one path do not collide
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

BOOST_AUTO_TEST_CASE(its_permissions_are_those_that_were_asked_for) {
  const Scratch scratch;
  scratch.write("secret", "old");
  std::filesystem::permissions(scratch / "secret", std::filesystem::perms{0644});
  NewFile file(scratch / "secret", 0600);
  file.publish();
  BOOST_TEST((std::filesystem::status(scratch / "secret").permissions() == std::filesystem::perms{0600}));
}

BOOST_AUTO_TEST_CASE(errors_of_the_system_name_the_file) {
  const Scratch scratch;
  BOOST_TEST(mentions(refusal([&] { NewFile(scratch / "none" / "b"); }), {"b: cannot be created", "No such file"}));
  std::filesystem::create_directory(scratch / "c");
  NewFile onto_folder(scratch / "c");
  BOOST_TEST(mentions(refusal([&] { onto_folder.publish(); }), {"c: cannot get its name", "directory"}));
}

BOOST_AUTO_TEST_CASE(several_get_their_names_or_none_does) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "c");
  const auto attempt = [&] {
    std::vector<NewFile> files;
    for (const char* name : {"a", "b", "c", "d"}) files.emplace_back(scratch / name).write_at(0, bytes(name));
    NewFile::publish_all(files);
  };
  BOOST_TEST(mentions(refusal(attempt), {"c: cannot get its name", "directory"}));
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(scratch.folder()), {}) == 1);
  std::filesystem::remove(scratch / "c");
  BOOST_TEST(refusal(attempt) == "accepted");
  for (const char* name : {"a", "b", "c", "d"}) BOOST_TEST(read_text_file(scratch / name, 100) == name);
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(scratch.folder()), {}) == 4);
}

// A process that is killed cannot clean up after itself.
BOOST_AUTO_TEST_CASE(a_killed_process_leaves_nothing_where_files_need_no_name) {
  const Scratch scratch;
  const int probe = ::open(scratch.folder().c_str(), O_TMPFILE | O_WRONLY, 0666);
  if (probe < 0) return BOOST_TEST_MESSAGE("this file system has no O_TMPFILE"), void();
  ::close(probe);
  const ::pid_t child = ::fork();
  if (child == 0) {
    NewFile file(scratch / "a");
    file.write_at(0, bytes("half"));
    std::raise(SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  BOOST_TEST(WIFSIGNALED(status));
  BOOST_TEST(std::filesystem::is_empty(scratch.folder()));
}

BOOST_AUTO_TEST_SUITE_END()
