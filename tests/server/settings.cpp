#include "serve/settings.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <sstream>

#include "exits.h"

BOOST_AUTO_TEST_SUITE(server_settings)

using namespace serve;
using namespace std::chrono_literals;
using program::UsageError;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("tenon-settings-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

struct Variable {
  std::string name;
  Variable(const std::string& n, const std::string& value) : name(n) { setenv(n.c_str(), value.c_str(), 1); }
  ~Variable() { unsetenv(name.c_str()); }
};

Settings parsed(std::vector<std::string> words) {
  words.insert(words.begin(), "tenon-serve");
  std::vector<char*> argv;
  for (std::string& each : words) argv.push_back(each.data());
  argv.push_back(nullptr);
  return parse_settings(static_cast<int>(words.size()), argv.data());
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    parsed(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string described(const Settings& settings) {
  std::string text;
  for (const std::string& line : settings.describe()) text += line + "\n";
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(without_flags_the_defaults_hold) {
  const Settings s = parsed({});
  BOOST_TEST(s.host == "127.0.0.1");
  BOOST_TEST(s.port == 8080);
  BOOST_TEST(s.max_concurrent_requests == 64);
  BOOST_TEST(s.max_stop_sequences == 10);
  BOOST_TEST(s.max_best_of == 2);
  BOOST_TEST(s.max_n == 8);
  BOOST_TEST(s.payload_limit == 2'000'000U);
  BOOST_CHECK(s.header_timeout == 5s && s.body_timeout == 30s && s.idle_timeout == 65s && s.write_timeout == 10s);
  BOOST_CHECK(s.request_timeout == 0s && s.shutdown_timeout == 30s && s.adapter_wait == 30s &&
              s.stream_interval == 10ms);
  BOOST_TEST(s.model.weights == "float32");
  BOOST_TEST(!s.model.weights_given);
  BOOST_TEST(s.log_requests);
  BOOST_TEST(!s.enable_adapter_admin);
  BOOST_TEST(s.chat_template == "auto");
  BOOST_TEST(s.metrics_compat == "vllm");
}

BOOST_AUTO_TEST_CASE(flags_are_taken) {
  const Settings s = parsed({"--model",
                             "m",
                             "--weights",
                             "int8",
                             "--block",
                             "32",
                             "--lora",
                             "looped",
                             "--threads",
                             "3",
                             "--max-adapters-resident",
                             "4",
                             "--preload-adapters",
                             "a,b/c",
                             "--preload-adapters",
                             "d",
                             "--adapter-wait",
                             "0.25",
                             "--stream-interval",
                             "0",
                             "--no-log-requests",
                             "--no-prefix-reuse",
                             "--api-key",
                             "k1",
                             "--api-key",
                             "k2",
                             "--host",
                             "0.0.0.0",
                             "--port",
                             "0",
                             "--enable-adapter-admin",
                             "--payload-limit",
                             "4096",
                             "--cors-origin",
                             "https://a.example:8443,chrome-extension://abc",
                             "--cors-origin",
                             "tauri://localhost",
                             "--allowed-host",
                             "Chat.Example,b.example"});
  BOOST_TEST(s.model.model == "m");
  BOOST_TEST(s.model.weights == "int8");
  BOOST_TEST(s.model.weights_given);
  BOOST_TEST(s.model.block == 32);
  BOOST_TEST(s.model.adapter_slots == 4);
  BOOST_TEST(!s.model.prefix_reuse);
  BOOST_TEST(s.preload_adapters == (std::vector<std::string>{"a", "b/c", "d"}), boost::test_tools::per_element());
  BOOST_CHECK(s.adapter_wait == 250ms && s.stream_interval == 0ms);
  BOOST_TEST(!s.log_requests);
  BOOST_TEST(s.api_keys == (std::vector<std::string>{"k1", "k2"}), boost::test_tools::per_element());
  BOOST_TEST(s.port == 0);
  BOOST_TEST(s.payload_limit == 4096U);
  BOOST_TEST(s.cors_origins ==
                 (std::vector<std::string>{"https://a.example:8443", "chrome-extension://abc", "tauri://localhost"}),
             boost::test_tools::per_element());
  BOOST_TEST(s.allowed_hosts == (std::vector<std::string>{"chat.example", "b.example"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_flag_beats_the_variable_and_the_variable_the_file) {
  const Folder folder;
  const std::string file = folder.write("a.toml",
                                        "port = 1001\nmax-n = 3\nhost = \"127.0.0.3\"\nlog-requests = false\n"
                                        "preload-adapters = [\"x\", \"y\"]\nmax-adapters-resident = 7\n"
                                        "no-prefix-reuse = true\n");
  {
    const Settings s = parsed({"--config", file});
    BOOST_TEST(s.port == 1001);
    BOOST_TEST(s.max_n == 3);
    BOOST_TEST(!s.log_requests);
    BOOST_TEST(s.preload_adapters.size() == 2U);
    BOOST_TEST(s.model.adapter_slots == 7);
    BOOST_TEST(!s.model.prefix_reuse);
  }
  const Variable port("TENON_PORT", "1002"), n("TENON_MAX_N", "4"), log("TENON_LOG_REQUESTS", "true");
  const Variable list("TENON_PRELOAD_ADAPTERS", "p,q,r"), alias("TENON_MAX_ADAPTERS_RESIDENT", "9");
  const Settings s = parsed({"--config", file, "--port", "1003"});
  BOOST_TEST(s.port == 1003);
  BOOST_TEST(s.max_n == 4);
  BOOST_TEST(s.host == "127.0.0.3");
  BOOST_TEST(s.log_requests);
  BOOST_TEST(s.preload_adapters.size() == 3U);
  BOOST_TEST(s.model.adapter_slots == 9);
  BOOST_TEST(parsed({"--port", "5", "--no-log-requests"}).port == 5);
  BOOST_TEST(!parsed({"--no-log-requests"}).log_requests);
  const Variable nothing("TENON_HOST", "");
  BOOST_TEST(parsed({"--config", file}).host == "127.0.0.3");
}

BOOST_AUTO_TEST_CASE(a_variable_may_name_the_file) {
  const Folder folder;
  const Variable config("TENON_CONFIG", folder.write("b.toml", "port = 77\n"));
  BOOST_TEST(parsed({}).port == 77);
  BOOST_TEST(parsed({"--config", folder.write("c.toml", "port = 78\n")}).port == 78);
  const Variable gone("TENON_CONFIG", (folder.path / "gone").string());
  BOOST_TEST(has(refusal({}), "--config"));
}

BOOST_AUTO_TEST_CASE(a_wrong_file_is_refused) {
  const Folder folder;
  for (const char* text : {"prot = 1\n", "[section]\nport = 1\n", "port = x\n", "config = \"a\"\n", "help = true\n"})
    BOOST_TEST(refusal({"--config", folder.write("d.toml", text)}) != "accepted", text);
  BOOST_TEST(has(refusal({"--config", (folder.path / "none").string()}), "--config"));
  BOOST_TEST(has(refusal({"--config", folder.write("e.toml", "port = 70000\n")}), "--port: must be an integer"));
}

BOOST_AUTO_TEST_CASE(values_out_of_range_name_flag_and_range) {
  BOOST_TEST(refusal({"--port", "65536"}) == "--port: must be an integer from 0 to 65535, is 65536");
  for (const char* wrong : {"010", "0x10", "1e3", "-1", "", " 1", "99999999999999999999"})
    BOOST_TEST(has(refusal({"--port=" + std::string(wrong)}), "--port"), wrong);
  BOOST_TEST(has(refusal({"--adapter-wait", "nan"}), "--adapter-wait: must be seconds from 0 to 86400"));
  BOOST_TEST(has(refusal({"--header-timeout", "0"}), "--header-timeout"));
  BOOST_TEST(has(refusal({"--block", "17"}), "--block: must be 16, 32 or 64"));
  BOOST_TEST(has(refusal({"--lora", "merged"}), "--lora: must be one of segmented, gathered, looped, none"));
  BOOST_TEST(has(refusal({"--chat-template", "x.jinja"}), "--chat-template: must be one of auto, none, plain"));
  BOOST_TEST(has(refusal({"--chat-template", "x.jinja"}), "there is no file x.jinja"));
  const std::string jinja = TENON_SOURCE_DIR "/tests/chat/templates/chatml.jinja";
  BOOST_TEST(parsed({"--chat-template", jinja}).chat_template == jinja);
  BOOST_TEST(has(refusal({"--metrics-compat", "tgi"}), "--metrics-compat"));
  BOOST_TEST(has(refusal({"--max-concurrent-requests", "0"}), "--max-concurrent-requests"));
  BOOST_TEST(has(refusal({"--served-model-name", "a{b"}), "--served-model-name"));
  BOOST_TEST(has(refusal({"--cors-origin", "*"}), "--cors-origin: must be SCHEME://HOST[:PORT]"));
  BOOST_TEST(has(refusal({"--cors-origin", "null"}), "--cors-origin: null is what browsers send"));
  BOOST_TEST(has(refusal({"--cors-origin", "https://a.example:443"}), ":443"));
  for (const char* host : {"*", "*.example", "a.example:8080", "http://a.example", "a b", ""})
    BOOST_TEST(has(refusal({"--allowed-host=" + std::string(host)}), "--allowed-host"), host);
  BOOST_TEST(has(refusal({"--preload-adapters", "a,b", "--adapter-slots", "1"}), "--preload-adapters"));
  const Variable port("TENON_PORT", "many");
  BOOST_TEST(has(refusal({}), "--port"));
}

BOOST_AUTO_TEST_CASE(a_model_may_stand_without_its_flag) {
  const Folder folder;
  BOOST_TEST(parsed({folder.path.string(), "--port", "80"}).model.model == folder.path.string());
  BOOST_TEST(has(refusal({(folder.path / "gone").string()}), "each value stands behind its flag, as in --model DIR"));
  BOOST_TEST(parsed({"org/name"}).model.model == "org/name");  // of the hub cache
  BOOST_TEST(has(refusal({"a-secret"}), "neither a flag nor a model's"));
  for (const std::vector<std::string>& both :
       {std::vector<std::string>{folder.path.string(), "--model", "a"}, {"--model=a", folder.path.string()}})
    BOOST_TEST(has(refusal(both), "--model: a model stands on the command line without its flag, too"));
  const Variable model("TENON_MODEL", "other");
  BOOST_TEST(parsed({}).model.model == "other");
  BOOST_TEST(parsed({folder.path.string()}).model.model == folder.path.string());
  std::ofstream(folder.path / "set.toml") << "model = \"other\"\n";
  const Variable none("TENON_MODEL", "");
  BOOST_TEST(parsed({folder.path.string(), "--config", (folder.path / "set.toml").string()}).model.model ==
             folder.path.string());
}

BOOST_AUTO_TEST_CASE(variables_that_name_no_flag_are_told) {
  const std::vector<std::string> before = parsed({}).unknown_variables;  // of the environment of this test
  const Variable wrong("TENON_MAX_NN", "4"), right("TENON_MAX_N", "4"), no_ui("TENON_NO_UI", ""),
      test("TENON_TEST_A", "4"), kubernetes("TENON_PORT_80_TCP", "tcp://10.0.0.1:80"),
      host("TENON_SERVE_SERVICE_HOST", "10.0.0.1"), serve("TENON_SERVE_PORT_80_TCP_ADDR", "10.0.0.1");
  std::vector<std::string> more = parsed({}).unknown_variables;
  BOOST_TEST(std::erase_if(more, [&](const auto& each) { return std::ranges::count(before, each) > 0; }) ==
             before.size());
  BOOST_TEST((more == std::vector<std::string>{"TENON_MAX_NN"}));
}

BOOST_AUTO_TEST_CASE(cache_tokens_are_told_in_whole_blocks) {
  BOOST_TEST(
      has(described(parsed({"--cache-tokens", "10"})), "cache-tokens = 16, which is 10 in whole blocks of 16\n"));
  BOOST_TEST(has(described(parsed({"--cache-tokens", "64", "--block", "64"})), "cache-tokens = 64\n"));
  BOOST_TEST(has(described(parsed({"--cache-tokens", "10", "--cache", "contiguous"})), "cache-tokens = 10\n"));
}

BOOST_AUTO_TEST_CASE(other_machines_need_a_key_or_insecure) {
  for (const char* host : {"0.0.0.0", "::", "192.168.1.5", "example.org", "127.evil.example", "2130706433"}) {
    const std::string text = refusal({"--host", host});
    BOOST_TEST(has(text, "--api-key-file"), text);
    BOOST_TEST(has(text, "--insecure"), text);
    BOOST_TEST(refusal({"--host", host, "--insecure"}) == "accepted");
    BOOST_TEST(refusal({"--host", host, "--api-key-file", "f"}) == "accepted");
  }
  for (const char* host : {"127.0.0.1", "127.9.9.9", "::1", "localhost", "[::1]"})
    BOOST_TEST(refusal({"--host", host}) == "accepted");
  BOOST_TEST(has(described(parsed({"--host", "::1", "--port", "80"})), "listen = [::1]:80\n"));
  BOOST_TEST(parsed({"--host", "[::1]"}).host == "::1");
  BOOST_TEST(has(refusal({"--enable-adapter-admin"}), "--enable-adapter-admin"));
  const Variable key("TENON_API_KEY", "secret-1");
  BOOST_TEST(refusal({"--host", "0.0.0.0", "--enable-adapter-admin"}) == "accepted");
}

BOOST_AUTO_TEST_CASE(keys_are_never_shown) {
  Settings s = parsed({"--api-key", "very-secret", "--api-key", "more-secret"});
  s.resolve("m", 1024);
  BOOST_TEST(!has(described(s), "secret"));
  BOOST_TEST(has(described(s), "keys = 2"));
  BOOST_TEST(has(described(s), "resume = off"));
  const Settings resumes = parsed({"--resume-key-file", "f", "--resume-timeout", "2.5"});
  BOOST_TEST(resumes.resume_key_file == "f");
  BOOST_TEST(has(described(resumes), "resume = for 2.5 s"));
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--apikey", "very-secret"}, {"--apikey=very-secret"}, {"very-secret"}, {"--api-key", "a", "very-secret"}}) {
    const std::string text = refusal(words);
    BOOST_TEST(text != "accepted");
    BOOST_TEST(!has(text, "very-secret"), text);
  }
}

BOOST_AUTO_TEST_CASE(help_and_version_are_asked_for) {
  for (const auto& [flag, part] : {std::pair{"--help", "TENON_MAX_N"}, {"--version", "tenon-serve "}}) {
    try {
      parsed({flag});
      BOOST_ERROR("nothing was said");
    } catch (const InformationAsked& said) {
      BOOST_TEST(has(said.what(), part));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_rest_follows_from_the_model) {
  const Folder folder;
  const auto model = folder.path / "my model";
  std::filesystem::create_directories(model / "adapters");
  Settings s = parsed({});
  s.resolve(model / "", 1024);
  BOOST_TEST((s.served_model_names == std::vector<std::string>{"my-model"}));
  BOOST_TEST(s.model.adapter_root == (model / "adapters").string());
  BOOST_TEST(s.max_input_length == 1023);
  BOOST_TEST(s.max_total_tokens == 1024);
  BOOST_TEST(has(described(s), "max-input-length = 1023"));

  s = parsed({"--served-model-name", "gpt2", "--lora", "none"});
  s.resolve(model, 300);
  BOOST_TEST((s.served_model_names == std::vector<std::string>{"gpt2"}));
  BOOST_TEST(s.model.adapter_root == "");
  BOOST_TEST(s.max_input_length == 299);

  s = parsed({"--served-model-name", "a,b", "--served-model-name", "c/d", "--no-parse-special", "--lenient"});
  BOOST_TEST((s.served_model_names == std::vector<std::string>{"a", "b", "c/d"}));
  BOOST_TEST((!s.parse_special && s.lenient));
  BOOST_TEST((Settings().parse_special && !Settings().lenient));

  s = parsed({"--max-total-tokens", "100"});
  s.resolve(folder.path, 1024);
  BOOST_TEST(s.max_input_length == 99);
  BOOST_TEST(s.model.adapter_root == "");

  const auto refused = [&](const std::vector<std::string>& words) {
    Settings each = parsed(words);
    try {
      each.resolve(folder.path, 1024);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  BOOST_TEST(has(refused({"--max-total-tokens", "1025"}), "--max-total-tokens"));
  BOOST_TEST(has(refused({"--max-input-length", "1024"}), "--max-input-length"));
  BOOST_TEST(has(refused({"--adapter-root", (folder.path / "gone").string()}), "--adapter-root"));
  BOOST_TEST(has(refused({"--preload-adapters", "a"}), "--adapter-root"));
  BOOST_TEST(has(refused({"--hub-cache", (folder.path / "gone").string()}), "--hub-cache"));
  BOOST_TEST(refused({"--preload-adapters", "a", "--hub-cache", folder.path.string()}) == "accepted");
}

BOOST_AUTO_TEST_CASE(places_of_adapters) {
  const Folder folder;
  const std::string path = folder.path.string();
  BOOST_TEST((parsed({}).hub_cache.empty() && parsed({}).fetch.command.empty()));
  BOOST_TEST(has(described(parsed({})), "hub-cache = none\nadapter-fetch = none\n"));
  BOOST_TEST(parsed({"--hub-cache", path}).hub_cache == path);
  {
    // Only where a flag asks for it.
    const Variable home("HF_HOME", path), cache("HF_HUB_CACHE", "");
    BOOST_TEST(parsed({}).hub_cache.empty());
    BOOST_TEST(parsed({"--hub-cache-env"}).hub_cache == path + "/hub");
    const Variable beats("HF_HUB_CACHE", path + "/other");
    BOOST_TEST(parsed({"--hub-cache-env"}).hub_cache == path + "/other");
  }
  BOOST_TEST(has(refusal({"--hub-cache-env", "--hub-cache", path}), "--hub-cache-env"));

  const std::vector<std::string> fetch{"--adapter-fetch", "/bin/echo --secret=5  x", "--adapter-fetch-folder", path};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fetch.begin(), fetch.end());
    return more;
  };
  Settings s = parsed(with({"--api-key", "k", "--adapter-fetch-timeout", "1.5", "--adapter-fetch-limit", "1000",
                            "--adapter-fetch-total", "5000", "--max-concurrent-requests", "10"}));
  BOOST_TEST((s.fetch.command == std::vector<std::string>{"/bin/echo", "--secret=5", "x"}));
  BOOST_TEST((s.fetch.folder == folder.path && s.fetch.timeout == 1500ms && s.fetch.waiting == 5));
  BOOST_TEST((s.fetch.bytes == 1000 && s.fetch.total_bytes == 5000));
  BOOST_TEST(has(described(s), "adapter-fetch = /bin/echo\n"));
  BOOST_TEST(!has(described(s), "secret"));
  BOOST_TEST(has(refusal(with({})), "--adapter-fetch: needs a key"));
  BOOST_TEST(has(refusal({"--adapter-fetch", "/bin/echo", "--api-key", "k"}), "--adapter-fetch-folder"));
  BOOST_TEST(has(refusal({"--adapter-fetch-folder", path, "--api-key", "k"}), "--adapter-fetch: is needed"));
  for (const char* command : {"/bin/no-such-program", "echo $HOME", "echo 'a'", "echo a; echo b"}) {
    const std::string said = refusal({"--adapter-fetch", command, "--adapter-fetch-folder", path, "--api-key", "k"});
    BOOST_TEST(has(said, "--adapter-fetch: "), said);
  }
  s = parsed(with({"--api-key", "k", "--lora", "none"}));
  s.resolve(folder.path, 1024);
  BOOST_TEST(s.fetch.command.empty());
}

BOOST_AUTO_TEST_SUITE_END()
