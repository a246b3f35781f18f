// Names of adapters from elsewhere, and the operator's command that fetches them.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../io/scratch.h"
#include "serve/fetch/adapter_fetcher.h"
#include "serve/fetch/adapter_reference.h"
#include "serve/fetch/command.h"

BOOST_AUTO_TEST_SUITE(server_adapter_fetch)

using namespace serve;
using namespace std::chrono_literals;
using tenon::test::mentions;
using tenon::test::refusal;
using tenon::test::Scratch;
namespace fs = std::filesystem;

namespace {

std::string script(const Scratch& scratch, const std::string& text) {
  const fs::path file = scratch.write("command", "#!/bin/sh\n" + text);
  fs::permissions(file, fs::perms::owner_all);
  return file.string();
}

std::string text_of(const fs::path& file) {
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A fetcher whose command is a shell script.
struct Fetching {
  Scratch scratch;
  FetchOptions options;

  explicit Fetching(const std::string& text) {
    options.command = {script(scratch, text)};
    options.folder = scratch / "fetched";
    options.timeout = 60s;
    options.bytes = 100'000;
  }
  // The error of fetching the name, which says no path; "accepted" if there is none.
  std::string said(const std::string& name) const {
    AdapterFetcher fetcher(options);
    const std::string said = refusal([&] { fetcher.folder(*adapter_reference(name)); });
    BOOST_TEST(said.find(scratch.folder().string()) == said.npos, said);
    BOOST_TEST(fetcher.has(*adapter_reference(name)) == (said == "accepted"));
    return said;
  }
  // Names in the folder of fetched adapters.
  std::vector<std::string> left() const {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(options.folder)) names.push_back(each.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
};

const std::string kGood = "echo '{}' > adapter_config.json\necho \"$@\" >> ../../calls\n";
const std::vector<std::string> kNothing{".lock"};

bool runs(::pid_t pid) { return ::kill(pid, 0) == 0; }

}  // namespace

BOOST_AUTO_TEST_CASE(names) {
  for (const char* name : {"weather", "team/weather", "org/name@v2", "a@refs/pr/3", "s3:a", "s3:bucket/path/to/a_b-c.d",
                           "hub:org/name", "hub:org/name@main"}) {
    BOOST_REQUIRE_MESSAGE(adapter_reference(name), name);
    BOOST_TEST(adapter_reference(name)->text() == name);
  }
  BOOST_TEST((adapter_reference("s3:a/b/c")->source == "s3" && adapter_reference("s3:a/b/c")->id == "a/b/c"));
  BOOST_TEST((adapter_reference("hub:a/b@c")->id == "a/b" && adapter_reference("hub:a/b@c")->revision == "c"));
  for (const std::string& name : {std::string(),
                                  std::string("a/b/c"),
                                  std::string("s3:"),
                                  std::string("s3:/a"),
                                  std::string("s3:a/"),
                                  std::string("s3:a//b"),
                                  std::string("s3:../a"),
                                  std::string("s3:a/../b"),
                                  std::string("s3:a/./b"),
                                  std::string("s3:a..b"),
                                  std::string("s3:-rf"),
                                  std::string("s3:a/-rf"),
                                  std::string("s3:a b"),
                                  std::string("s3:a;b"),
                                  std::string("s3:$(a)"),
                                  std::string("s3:a\nb"),
                                  std::string("s3:a\0b", 6),
                                  std::string("s3:a@v"),
                                  std::string("s3:s3:a"),
                                  std::string("hub:a/b/c"),
                                  std::string("ftp:a"),
                                  std::string("hub:a@"),
                                  std::string("a@"),
                                  std::string("a@../b"),
                                  std::string("s3:") + std::string(161, 'a'),
                                  std::string("hub:a@") + std::string(65, 'b'),
                                  std::string("s3:\xc3\xa4"),
                                  std::string("s3:%2e%2e")}) {
    BOOST_TEST(!adapter_reference(name), name);
  }
}

BOOST_AUTO_TEST_CASE(commands_are_split_at_spaces) {
  const Scratch scratch;
  const std::string program = script(scratch, "exit 0\n");
  const std::string path = "relative:" + scratch.folder().string();
  using Words = std::vector<std::string>;
  BOOST_TEST((command_words(program + "  --to .", "") == Words{program, "--to", "."}));
  BOOST_TEST((command_words("command a=b", path) == Words{program, "a=b"}));
  for (const char* line : {"", " ", "command 'a b'", "command $HOME", "command; command", "command > x",
                           "command a\\ b", "no-such-program", "/no/such/program", "/etc/passwd", "/tmp"}) {
    const std::string said = refusal([&] { command_words(line, path); });
    BOOST_TEST(mentions(said, {"--adapter-fetch"}), line << " -> " << said);
  }
}

BOOST_AUTO_TEST_CASE(a_command_fetches_into_its_working_folder) {
  setenv("TENON_SECRET", "x", 1);
  const fs::path leak = fs::canonical(fs::temp_directory_path());
  const int inherited = ::open(leak.c_str(), O_RDONLY | O_DIRECTORY);  // without O_CLOEXEC
  BOOST_REQUIRE(inherited >= 0);
  const Fetching fetching(kGood + "env > environment\nls -l /proc/self/fd > descriptors\ncat > input\n");
  AdapterFetcher fetcher(fetching.options);
  const auto name = *adapter_reference("s3:bucket/a");
  BOOST_TEST(!fetcher.has(name));
  const fs::path folder = fetcher.folder(name);
  BOOST_TEST(folder == fetching.options.folder / "s3:bucket+a");
  BOOST_TEST(text_of(fetching.scratch / "calls") == "-- bucket/a\n");
  BOOST_TEST(text_of(folder / "input").empty());
  const std::string environment = text_of(folder / "environment");
  BOOST_TEST(environment.find("TENON_SECRET") == environment.npos, environment);
  for (const char* variable : {"PATH=", "TENON_ADAPTER_SOURCE=s3\n", "TENON_ADAPTER_REVISION=\n"})
    BOOST_TEST(environment.find(variable) != environment.npos, environment);
  ::close(inherited);
  const std::string descriptors = text_of(folder / "descriptors");
  BOOST_TEST(descriptors.find("-> " + leak.string() + "\n") == descriptors.npos, descriptors);
  fetcher.folder(name);
  fetcher.folder(*adapter_reference("hub:org/b@v2"));
  BOOST_TEST(text_of(fetching.scratch / "calls") == "-- bucket/a\n-- org/b\n");  // once each
  BOOST_TEST(text_of(fetching.options.folder / "hub:org+b@v2/environment").find("TENON_ADAPTER_REVISION=v2\n") !=
             std::string::npos);
  BOOST_TEST((fetcher.list() == std::vector<std::string>{"hub:org/b@v2", "s3:bucket/a"}));
  BOOST_TEST(fetcher.forget(name));
  BOOST_TEST((!fetcher.forget(name) && !fetcher.has(name) && !fs::exists(folder)));
  fetcher.folder(name);
  BOOST_TEST(text_of(fetching.scratch / "calls") == "-- bucket/a\n-- org/b\n-- bucket/a\n");
}

BOOST_AUTO_TEST_CASE(a_folder_of_fetched_adapters_outlives_the_server) {
  const Fetching fetching(kGood);
  BOOST_TEST(fetching.said("s3:a") == "accepted");
  fs::create_directories(fetching.options.folder / ".partial-abc");
  AdapterFetcher fetcher(fetching.options);
  BOOST_TEST(fetcher.has(*adapter_reference("s3:a")));
  BOOST_TEST((fetching.left() == std::vector<std::string>{".lock", "s3:a"}));
  // One server at a time.
  BOOST_TEST(mentions(refusal([&] { AdapterFetcher second(fetching.options); }), {"in use by another server"}));
}

BOOST_AUTO_TEST_CASE(concurrent_requests_share_one_run) {
  const Fetching fetching("sleep 0.3\n" + kGood);
  AdapterFetcher fetcher(fetching.options);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back(
        [&] { good += fs::exists(fetcher.folder(*adapter_reference("s3:a")) / "adapter_config.json"); });
  for (std::thread& each : threads) each.join();
  BOOST_TEST(good == 8);
  BOOST_TEST(text_of(fetching.scratch / "calls") == "-- a\n");
}

BOOST_AUTO_TEST_CASE(failures_are_errors_by_name) {
  const Fetching failing("echo the secret of $HOME >&2\nexit 3\n");
  const std::string said = failing.said("s3:bucket/a");
  BOOST_TEST(mentions(said, {"adapter s3:bucket/a", "could not be fetched", "status 3"}), said);
  BOOST_TEST(said.find("secret") == said.npos);
  BOOST_TEST((failing.left() == kNothing));
  const Fetching killed(kGood + "kill -9 $$\n");
  BOOST_TEST(mentions(killed.said("s3:a"), {"signal 9"}));
  const Fetching nothing("exit 0\n");
  BOOST_TEST(mentions(nothing.said("s3:a"), {"no adapter_config.json"}));
  BOOST_TEST((nothing.left() == kNothing));
  // Whatever it prints, and however much, changes nothing.
  const Fetching garbage("head -c 3000000 /dev/urandom\n" + kGood + "head -c 3000000 /dev/urandom >&2\n");
  BOOST_TEST(garbage.said("s3:a") == "accepted");
  Fetching gone(kGood);
  fs::remove(gone.scratch / "command");
  BOOST_TEST(mentions(gone.said("s3:a"), {"cannot be started"}));
}

BOOST_AUTO_TEST_CASE(a_failure_is_remembered_for_a_while) {
  const Fetching fetching(kGood + "exit 1\n");
  AdapterFetcher fetcher(fetching.options);
  const auto name = *adapter_reference("s3:a");
  for (int i = 0; i < 3; ++i) BOOST_TEST(mentions(refusal([&] { fetcher.folder(name); }), {"status 1"}));
  BOOST_TEST(text_of(fetching.scratch / "calls") == "-- a\n");
  fetcher.forget(name);
  refusal([&] { fetcher.folder(name); });
  BOOST_TEST(text_of(fetching.scratch / "calls") == "-- a\n-- a\n");
}

BOOST_AUTO_TEST_CASE(links_and_special_files_are_refused) {
  for (const auto& [command, what] : std::vector<std::pair<std::string, std::string>>{
           {"ln -s /etc/passwd adapter_model.safetensors\n", "a symbolic link"},
           {"mkdir a; ln -s / a/b\n", "a symbolic link"},
           {"ln adapter_config.json other\n", "a hard link"},
           {"mkfifo adapter_model.safetensors\n", "a special file"}}) {
    const Fetching fetching(kGood + command);
    const std::string said = fetching.said("s3:a");
    BOOST_TEST(mentions(said, {"adapter s3:a", "wrote", what}), said);
    BOOST_TEST((fetching.left() == kNothing));
  }
  const Fetching linked("ln -s /etc/passwd adapter_config.json\n");
  BOOST_TEST(mentions(linked.said("s3:a"), {"a symbolic link"}));
}

BOOST_AUTO_TEST_CASE(a_command_that_hangs_is_ended_with_its_children) {
  Fetching fetching("sleep 1000 & echo $! > ../../child\n(trap '' TERM; sleep 1000) &\nsleep 1000\n");
  fetching.options.timeout = 500ms;
  AdapterFetcher fetcher(fetching.options);
  const auto begin = std::chrono::steady_clock::now();
  try {
    fetcher.folder(*adapter_reference("s3:a"));
    BOOST_ERROR("no error");
  } catch (const FetchError& error) {
    BOOST_TEST((error.why() == FetchError::Why::timed_out));
    BOOST_TEST(mentions(error.what(), {"adapter s3:a", "took too long"}));
  }
  BOOST_TEST((std::chrono::steady_clock::now() - begin < 30s));
  const auto child = static_cast<::pid_t>(std::stol(text_of(fetching.scratch / "child")));
  for (int i = 0; i < 500 && runs(child); ++i) std::this_thread::sleep_for(10ms);  // init reaps it
  const std::string state = text_of("/proc/" + std::to_string(child) + "/stat");
  BOOST_TEST((!runs(child) || state.find(" Z ") != state.npos), state);
  BOOST_TEST((fetching.left() == kNothing));
}

// A child that outlives its command could write to the folder after it was checked.
BOOST_AUTO_TEST_CASE(nothing_of_a_command_outlives_it) {
  const Fetching fetching(kGood + "(sleep 0.5; echo late > late) > /dev/null 2>&1 &\n");
  AdapterFetcher fetcher(fetching.options);
  const fs::path folder = fetcher.folder(*adapter_reference("s3:a"));
  std::this_thread::sleep_for(1s);
  BOOST_TEST(!fs::exists(folder / "late"));
}

BOOST_AUTO_TEST_CASE(what_is_too_large_is_refused) {
  // While it runs, and at its end.
  for (const char* more : {"sleep 1000\n", ""}) {
    const Fetching fetching(kGood + "head -c 200000 /dev/zero > adapter_model.safetensors\n" + more);
    const std::string said = fetching.said("s3:a");
    BOOST_TEST(mentions(said, {"adapter s3:a", "larger than"}), said);
    BOOST_TEST((fetching.left() == kNothing));
  }
  const Fetching many(kGood + "for i in $(seq 1001); do : > $i; done\n");
  BOOST_TEST(mentions(many.said("s3:a"), {"larger than", "1000 files"}));
  Fetching total(kGood + "head -c 60000 /dev/zero > adapter_model.safetensors\n");
  total.options.total_bytes = 100'000;
  AdapterFetcher fetcher(total.options);
  fetcher.folder(*adapter_reference("s3:a"));
  const std::string said = refusal([&] { fetcher.folder(*adapter_reference("s3:b")); });
  BOOST_TEST(mentions(said, {"adapter s3:b", "is full", "unload"}), said);
  fetcher.forget(*adapter_reference("s3:a"));
  fetcher.forget(*adapter_reference("s3:b"));
  BOOST_TEST(fs::exists(fetcher.folder(*adapter_reference("s3:b"))));
}

BOOST_AUTO_TEST_CASE(waiting_has_bounds) {
  Fetching fetching("sleep 1000\n");
  fetching.options.at_once = 1;
  fetching.options.waiting = 1;
  AdapterFetcher fetcher(fetching.options);
  const auto why = [&](const char* name, const std::function<bool()>& wanted) {
    try {
      fetcher.folder(*adapter_reference(name), wanted);
    } catch (const FetchError& error) {
      return error.why();
    }
    return FetchError::Why::failed;
  };
  using Why = FetchError::Why;
  std::atomic<bool> wanted{true};
  Why first = Why::failed, second = Why::failed;
  std::thread running([&] { first = why("s3:a", {}); });
  std::this_thread::sleep_for(200ms);
  std::thread waiting([&] { second = why("s3:b", [&] { return wanted.load(); }); });
  std::this_thread::sleep_for(200ms);
  BOOST_TEST((why("s3:c", {}) == Why::busy));
  wanted = false;  // its client has left
  waiting.join();
  BOOST_TEST((second == Why::stopped));
  fetcher.stop();
  running.join();
  BOOST_TEST((first == Why::stopped));
  BOOST_TEST((why("s3:a", {}) == Why::stopped));
  BOOST_TEST((fetching.left() == kNothing));
}

BOOST_AUTO_TEST_SUITE_END()
