#include "serve/settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "exits.h"
#include "serve/api/origin.h"
#include "serve/settings_flags.h"
#include "serve/text.h"
#include "tenon/io/file.h"
#include "tenon/model/hub.h"
#include "tenon/version.h"

namespace serve {
namespace {

using program::ModelOptions;
using program::UsageError;

constexpr double kDay = 86400;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

// "max-n" is TENON_MAX_N.
std::string variable_of(const std::string& flag) {
  std::string name = "TENON_" + flag;
  for (char& c : name) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

// As CLI11 sees it: a variable that is set to nothing is not set.
bool is_set(const std::string& variable) {
  const char* const value = std::getenv(variable.c_str());
  return value != nullptr && *value != '\0';
}

// CLI11 2.1 reads the file before the environment, and what comes first stays: so the file leaves out what the
// environment says.
class FileBelowEnvironment : public CLI::ConfigTOML {
 public:
  explicit FileBelowEnvironment(const CLI::App& app) : app_(app) {}

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    auto read = CLI::ConfigTOML::from_config(input);
    std::erase_if(read, [this](const CLI::ConfigItem& item) {
      const CLI::Option* const option = item.parents.empty() ? app_.get_option_no_throw("--" + item.name) : nullptr;
      return option != nullptr && !option->get_envname().empty() && is_set(option->get_envname());
    });
    return read;
  }

 private:
  const CLI::App& app_;
};

// `folder`: the model that stands without its flag.
void add_model_flags(CLI::App& app, ModelOptions& o, std::string& folder) {
  Flags flags(app, "Model and engine");
  flags.text("--model", o.model, "DIR",
             "folder of a checkpoint, a GGUF file, or org/name in the hub cache; without it, the default model");
  // Without its value in errors: it may be a key whose flag is missing.
  const auto is_model = [](const std::string& text) -> std::string {
    std::error_code ignored;
    const bool is_hub_name = tenon::is_hub_name(text) && text.find('/') != text.npos;
    return is_hub_name || std::filesystem::exists(text, ignored)
               ? ""
               : "an argument is neither a flag nor a model's folder, file or org/name; "
                 "each value stands behind its flag, as in --model DIR";
  };
  app.add_option("DIR", folder, "as --model DIR")
      ->check(CLI::Validator(is_model, ""))
      ->configurable(false)
      ->option_text(" ");
  flags
      .choice("--weights", o.weights, program::words::weights,
              "how weights are stored; of a quantised folder by default its own")
      ->each([&o](const std::string&) { o.weights_given = true; });
  flags.choice("--head", o.head, program::words::head,
               "how the head is stored: as the weights, or with an int8 copy that is read first");
  flags.choice("--cache", o.cache, program::words::cache, "where keys and values live");
  flags.integer("--block", o.block, 16, 64, "tokens a block of the paged cache: 16, 32, 64");
  flags.choice("--kv", o.kv, program::words::kv, "element of keys and values");
  flags.choice("--attention", o.attention, program::words::attention, "how attention is computed");
  flags.choice("--scheduler", o.scheduler, program::words::scheduler, "who runs in a step");
  flags.integer("--max-wait-ms", o.max_wait_ms, 0, kMaxInt,
                "static scheduler: a batch departs after so long, full or not");
  // A server merges no adapter into its weights: requests name theirs.
  std::vector<std::string> lora(std::begin(program::words::lora), std::end(program::words::lora));
  std::erase(lora, "merged");
  flags.choice("--lora", o.lora, lora, "how adapters are added");
  flags.choice("--draft", o.draft, program::words::draft,
               "how tokens are guessed, to verify several in a step; no answer changes");
  flags.choice("--device", o.device, program::words::device, "where it runs");
  flags.integer("--threads", o.threads, 1, 4096, "threads", "all cores");
  flags.integer("--batch", o.batch, 1, kMaxInt, "sequences at once");
  flags.integer("--token-budget", o.token_budget, 1, kMaxInt, "rows of a step, and so the longest chunk of a prompt");
  flags.integer("--cache-tokens", o.cache_tokens, 1, kMaxInt, "tokens of cache for all sequences together",
                "by --batch and the context, within 2 GiB");
  flags.integer("--positions", o.positions, 1, kMaxInt, "the longest sequence", "what the model's files say");
  app.add_flag_callback(
         "--no-prefix-reuse", [&o] { o.prefix_reuse = false; }, "compute every prompt from its start")
      ->option_text(" ")
      ->group("Model and engine");
}

void add_adapter_flags(CLI::App& app, Settings& s) {
  Flags flags(app, "Adapters");
  flags.text("--adapter-root", s.model.adapter_root, "DIR (the model's adapters/, where it has one)",
             "folder that adapters are named below");
  flags.text(
      "--hub-cache", s.hub_cache, "DIR",
      "cache of huggingface_hub: its adapters may be named, as org/name or org/name@revision, where the root has "
      "none of that name; nothing is downloaded");
  flags.flag("--hub-cache-env", s.hub_cache_env,
             "the hub cache is the folder that HF_HUB_CACHE, HF_HOME or HOME names");
  flags.text("--adapter-fetch", s.adapter_fetch, "COMMAND",
             "program and arguments, split at spaces, that fetches an adapter of adapter_source s3 or hub into its "
             "working folder; it gets -- and the name. Needs a key and --adapter-fetch-folder");
  flags.text("--adapter-fetch-folder", s.adapter_fetch_folder, "DIR",
             "folder that keeps what was fetched, of this server alone");
  flags.seconds("--adapter-fetch-timeout", s.fetch.timeout, 0.1, kDay, "the longest run of that command");
  flags.integer("--adapter-fetch-limit", s.fetch.bytes, 1, kMostBytes, "bytes of one fetched adapter");
  flags.integer("--adapter-fetch-total", s.fetch.total_bytes, 1, kMostBytes, "bytes of all fetched adapters together");
  flags.integer("--adapter-slots,--max-adapters-resident", s.model.adapter_slots, 0, kMaxInt,
                "adapters in memory at once, 0 for any number; requests for others wait until one is idle");
  flags.list("--preload-adapters", s.preload_adapters, "A,B", "adapters to load before the server is ready");
  flags.seconds("--adapter-wait", s.adapter_wait, 0, kDay, "the longest wait of a request for a slot");
  flags.flag("--enable-adapter-admin", s.enable_adapter_admin,
             "POST /v1/load_lora_adapter and /v1/unload_lora_adapter; needs a key");
}

std::string chat_template_words() {
  return joined(std::vector<std::string>(std::begin(kChatTemplates), std::end(kChatTemplates)), ", ");
}

std::string check_chat_template(const std::string& text) {
  std::error_code ignored;
  if (std::find(std::begin(kChatTemplates), std::end(kChatTemplates), text) != std::end(kChatTemplates)) return {};
  if (std::filesystem::is_regular_file(text, ignored)) return {};
  return "must be one of " + chat_template_words() + ", or a file with a template; there is no file " + text;
}

void add_server_flags(CLI::App& app, Settings& s) {
  Flags flags(app, "Server");
  flags.text("--host", s.host, "ADDRESS (127.0.0.1)", "where to listen");
  flags.integer("--port", s.port, 0, 65535, "port to listen on, 0 for a free one");
  flags.text("--unix-socket", s.unix_socket, "PATH", "listen on this Unix socket, and on no address");
  flags.text("--tls-cert", s.tls_cert, "FILE", "certificate chain (PEM): serve HTTPS. SIGHUP reads both files again");
  flags.text("--tls-key", s.tls_key, "FILE", "its private key (PEM)");
  flags.list("--served-model-name", s.served_model_names, "NAME,... (the folder's)",
             "names of the model to clients; answers say the first");
  flags
      .text("--chat-template", s.chat_template, "WORD or FILE (" + s.chat_template + ")",
            "chat template; auto: the model's own, if it has one: " + chat_template_words() + "; or a file with one")
      ->check(CLI::Validator(check_chat_template, ""));
  flags.flag("--parse-special,!--no-parse-special", s.parse_special,
             "special tokens spelled in raw prompts are tokens, where a request does not say (on)");
  flags.flag("--lenient", s.lenient,
             "leave out unknown fields of requests instead of refusing them; the header x-ignored-fields names them");
  flags.flag("--generation-config", s.generation_config,
             "defaults of sampling from the model's generation_config.json, in place of each API's own");
  flags.seconds("--stream-interval", s.stream_interval, 0, 0.05,
                "tokens of a stream that come sooner share a write; 0: none does");
  app.add_option("--resume-key-file", s.resume_key_file,
                 "file of a secret that replicas share: streams with `resumable` can be continued on each of them")
      ->option_text("FILE")
      ->group("Server");
  flags.seconds("--resume-timeout", s.resume_timeout, 1, kDay,
                "such a stream can be continued so long after its begin");
  app.add_option("--handover", s.handover,
                 "folder for streams that run when SIGUSR2 ends the server: a new server with this folder goes on with "
                 "them. Needs --resume-key-file")
      ->option_text("DIR")
      ->group("Server");
  flags.seconds("--handover-timeout", s.handover_timeout, 1, kDay,
                "streams that were handed over wait so long for a server, and then for their clients");
  app.add_option("--receipt-key", s.receipt_key_file,
                 "Ed25519 private key (PEM) that signs receipts. SIGHUP reads it again")
      ->option_text("FILE")
      ->group("Server");
  flags.choice("--metrics-compat", s.metrics_compat, {"vllm", "none"}, "names in /metrics besides LoRAX's and tenon's");
  flags.flag("--ui,!--no-ui", s.ui, "the page in the browser, at /ui");
  flags.flag("--log-requests,!--no-log-requests", s.log_requests,
             "a line of JSON a request on standard error, without texts (on)");
  flags.list("--cors-origin", s.cors_origins, "ORIGIN",
             "web pages, extensions and apps of this origin may ask, as in https://a.example or chrome-extension://ID");
  flags.list("--allowed-host", s.allowed_hosts, "NAME",
             "a name of this server, as in chat.example: its own pages may ask under it without a key, as they may "
             "under an address");
}

void add_limit_flags(CLI::App& app, Settings& s) {
  Flags flags(app, "Limits");
  flags.integer("--connections", s.connections, 1, 1 << 20,
                "connections at once, or fewer where the limit of descriptors (ulimit -n) is lower; beyond that an "
                "idle one closes, or the newest is refused: 503");
  flags.integer("--max-concurrent-requests", s.max_concurrent_requests, 1, 4096,
                "requests at once, running and waiting; more are refused: 429");
  flags.integer("--max-concurrent-sequences", s.max_concurrent_sequences, 1, 1 << 20,
                "prompts x choices of those requests; more are refused: 429");
  flags.integer("--max-concurrent-tokens", s.max_concurrent_tokens, 1, std::int64_t{1} << 40,
                "tokens of those prompts and their longest answers; more are refused: 429");
  flags.integer("--default-max-new-tokens", s.default_max_new_tokens, 0, kMaxInt,
                "length of an answer of /generate where the request names none",
                std::to_string(s.default_max_new_tokens) + "; 0: what is left");
  flags.integer("--max-input-length", s.max_input_length, 0, kMaxInt, "tokens of a prompt",
                "0: what --max-total-tokens leaves beside an answer");
  flags.integer("--max-total-tokens", s.max_total_tokens, 0, kMaxInt, "tokens of prompt and answer", "0: the context");
  flags.integer("--max-stop-sequences", s.max_stop_sequences, 0, 1024, "stop texts of a request");
  flags.integer("--max-best-of", s.max_best_of, 1, 128, "best_of of a request");
  flags.integer("--max-n", s.max_n, 1, 128, "n of a request");
  flags.integer("--payload-limit", s.payload_limit, 1024, 1 << 30, "bytes of a body; more is refused: 413");
  flags.seconds("--header-timeout", s.header_timeout, 0.1, kDay, "to read a request's headers");
  flags.seconds("--body-timeout", s.body_timeout, 0.1, kDay, "to read a request's body");
  flags.seconds("--idle-timeout", s.idle_timeout, 0, kDay, "a connection is kept so long for its next request");
  flags.seconds("--write-timeout", s.write_timeout, 0.1, kDay, "a client that takes nothing for so long has gone");
  flags.seconds("--request-timeout", s.request_timeout, 0, kDay, "the longest that a request may take; 0: any time");
  flags.seconds("--shutdown-timeout", s.shutdown_timeout, 0, kDay, "requests may run on for so long after SIGTERM");
}

void add_key_flags(CLI::App& app, Settings& s) {
  Flags flags(app, "Keys");
  app.add_option(
         "--api-key-file", s.api_key_file,
         "file of keys, a line each with its terms (docs/server.md); # begins a comment line. SIGHUP reads it again")
      ->option_text("FILE")
      ->group("Keys");
  app.add_option(
         "--api-key", s.api_keys,
         "a key; may be repeated. Every user of this machine can read it: prefer --api-key-file or TENON_API_KEY")
      ->allow_extra_args(false)
      ->option_text("KEY")
      ->group("Keys");
  flags.flag("--insecure", s.insecure, "listen beyond this machine without a key");
}

constexpr const char* kFooter =
    "Every flag is also a variable, --max-n as TENON_MAX_N, and a line of the --config file, max-n = 4; a flag beats "
    "the\n"
    "variable, and the variable beats the file. TENON_CONFIG names the file.";

// Each option's variable; the one that is set, where it has several names.
void name_variables(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!option->get_configurable()) continue;
    std::string chosen;
    for (const std::string& name : option->get_lnames()) {
      const bool negative = !option->get_fnames().empty() && option->check_fname(name);
      if (!negative && (chosen.empty() || is_set(variable_of(name)))) chosen = variable_of(name);
    }
    option->envname(chosen);
  }
}

// What was not expected may be a key: only the flags among it are named.
std::string unexpected(const CLI::App& app) {
  std::string names;
  for (const std::string& each : app.remaining())
    if (each.starts_with("-")) names += (names.empty() ? "" : ", ") + each.substr(0, each.find('='));
  return names.empty() ? "an argument is not a flag: each value stands behind its flag" : names + ": no such flag";
}

void parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw InformationAsked(app.help());
  } catch (const CLI::CallForVersion&) {
    throw InformationAsked("tenon-serve " + std::string(tenon::kVersion) + "\n");
  } catch (const CLI::ExtrasError&) {
    throw UsageError(unexpected(app));
  } catch (const CLI::FileError& error) {
    throw UsageError("--config: " + std::string(error.what()));
  } catch (const CLI::ConfigError& error) {
    throw UsageError("--config: " + std::string(error.what()));
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
}

void refuse_flag(const std::string& flag, const std::string& what) { throw UsageError(flag + ": " + what); }

// CLI11 2.4 ignores a variable whose value the option does not take; 2.1 refuses it. The value may be a secret.
void check_variables(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (!option->get_envname().empty() && is_set(option->get_envname()) && option->count() == 0)
      refuse_flag(option->get_envname(), "is set to a value that " + option->get_name() + " does not take");
}

// A model on the command line overrides that of the variable or the file, with its flag or without it.
void choose_model(const std::string& folder, int argc, char** argv, ModelOptions& o) {
  if (folder.empty()) return;
  const auto is_flag = [](std::string_view word) { return word == "--model" || word.starts_with("--model="); };
  if (std::any_of(argv + 1, argv + argc, is_flag))
    refuse_flag("--model", "a model stands on the command line without its flag, too: keep one of them");
  o.model = folder;
}

// TENON_... that names no flag, such as a misspelled one. Left out are those of scripts and tests, and those that
// Kubernetes makes for a service of the name tenon or tenon-serve.
std::vector<std::string> unknown_variables(const CLI::App& app) {
  std::set<std::string> known = {"TENON_CONFIG"};
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.insert(variable_of(name));
  std::vector<std::string> unknown;
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view line(*each);
    const std::string name(line.substr(0, line.find('=')));
    if (!name.starts_with("TENON_") || known.contains(name)) continue;
    constexpr const char* kOthers[] = {"TENON_TEST_",    "TENON_BUILD_",     "TENON_PORT_",
                                       "TENON_SERVICE_", "TENON_SERVE_PORT", "TENON_SERVE_SERVICE_"};
    const auto begins = [&](const char* prefix) { return name.starts_with(prefix); };
    if (std::none_of(std::begin(kOthers), std::end(kOthers), begins)) unknown.push_back(tenon::printable(name, 60));
  }
  std::sort(unknown.begin(), unknown.end());
  return unknown;
}

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/:@+").find(c) != std::string_view::npos;
}

void check(const Settings& s) {
  if (s.model.block != 16 && s.model.block != 32 && s.model.block != 64)
    refuse_flag("--block", "must be 16, 32 or 64, is " + std::to_string(s.model.block));
  if (s.host.empty()) refuse_flag("--host", "an address is needed");
  if (s.unix_socket.empty() && !is_loopback(s.host) && !s.has_key() && !s.insecure)
    refuse_flag("--host",
                s.host + " is reached from other machines: name a key with --api-key-file, or say --insecure");
  if (s.unix_socket.size() > 107) refuse_flag("--unix-socket", "a path has at most 107 bytes");
  if (s.tls_cert.empty() != s.tls_key.empty())
    refuse_flag(s.tls_cert.empty() ? "--tls-cert" : "--tls-key", "is needed, too: a certificate and its key");
  if (!s.handover.empty() && s.resume_key_file.empty())
    refuse_flag("--handover", "needs --resume-key-file: clients continue their streams by it");
  if (!s.fetch.command.empty() && !s.has_key()) refuse_flag("--adapter-fetch", "needs a key: --api-key-file");
  if (s.enable_adapter_admin && !s.has_key()) refuse_flag("--enable-adapter-admin", "needs a key: --api-key-file");
  for (const std::string& name : s.served_model_names) {
    if (name.empty() || name.size() > 128 || !std::all_of(name.begin(), name.end(), in_name))
      refuse_flag("--served-model-name", "must be 1 to 128 letters, digits and . _ - / : @ +");
  }
  for (const std::string& origin : s.cors_origins) {
    const std::string why = why_no_origin(origin);
    if (!why.empty()) refuse_flag("--cors-origin", why);
  }
  if (!s.preload_adapters.empty() && s.model.lora == "none")
    refuse_flag("--preload-adapters", "there are none: --lora none");
  const std::set<std::string> preloaded(s.preload_adapters.begin(), s.preload_adapters.end());
  if (preloaded.contains("")) refuse_flag("--preload-adapters", "a name is empty");
  if (s.model.adapter_slots > 0 && preloaded.size() > static_cast<std::size_t>(s.model.adapter_slots))
    refuse_flag("--preload-adapters", std::to_string(preloaded.size()) + " are more than --adapter-slots " +
                                          std::to_string(s.model.adapter_slots));
}

// As people write them: brackets of an IPv6 address, and capitals of names.
void normalise(Settings& s) {
  if (s.host.size() > 2 && s.host.starts_with('[') && s.host.ends_with(']'))
    s.host = s.host.substr(1, s.host.size() - 2);
  for (std::string& host : s.allowed_hosts) {
    const auto authority = Authority::parse(host);
    if (!authority || !authority->port.empty())
      refuse_flag("--allowed-host",
                  "must be a host's name without scheme, port or wildcard, as in chat.example, is " + host);
    host = authority->host;
  }
  if (s.hub_cache_env && s.hub_cache.empty()) {
    s.hub_cache = program::hub_cache().string();
    if (s.hub_cache.empty()) refuse_flag("--hub-cache-env", "no variable names a folder");
  } else if (s.hub_cache_env) {
    refuse_flag("--hub-cache-env", "--hub-cache names a folder, too: say one of them");
  }
  if (s.adapter_fetch.empty() != s.adapter_fetch_folder.empty())
    refuse_flag(s.adapter_fetch.empty() ? "--adapter-fetch" : "--adapter-fetch-folder",
                "is needed, too: a command and the folder for what it fetches");
  if (s.adapter_fetch.empty()) return;
  const char* const path = std::getenv("PATH");
  try {
    s.fetch.command = command_words(s.adapter_fetch, path ? path : "");
  } catch (const tenon::Error& error) {
    throw UsageError(error.what());
  }
  s.fetch.folder = std::filesystem::absolute(s.adapter_fetch_folder);
  s.fetch.waiting = std::max(1, s.max_concurrent_requests / 2);
}

// "tales" of DIR/tales/.
std::string last_component(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::path full = std::filesystem::absolute(folder, ignored).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();
  std::string name = full.filename().string().substr(0, 128);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !in_name(c); }, '-');
  return name.empty() ? "model" : name;
}

std::string as_seconds(std::chrono::milliseconds time) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), static_cast<double>(time.count()) / 1000);
  return std::string(text, end.ptr) + " s";
}

std::string listed(const std::vector<std::string>& words) { return words.empty() ? "none" : joined(words, ","); }

}  // namespace

Settings parse_settings(int argc, char** argv) {
  Settings settings;
  CLI::App app("tenon-serve: serves a model and its LoRA adapters over HTTP, as LoRAX and OpenAI do.", "tenon-serve");
  app.set_version_flag("--version", std::string(tenon::kVersion))->configurable(false);
  app.get_formatter()->column_width(34);
  app.footer(kFooter);
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.config_formatter(std::make_shared<FileBelowEnvironment>(app));
  const char* const named = std::getenv("TENON_CONFIG");
  CLI::Option* const config = app.set_config("--config", named ? named : "", "read flags from this file (TOML or INI)");
  config->option_text("FILE");
  app.get_help_ptr()->configurable(false);
  add_server_flags(app, settings);
  std::string folder;
  add_model_flags(app, settings.model, folder);
  add_adapter_flags(app, settings);
  add_limit_flags(app, settings);
  add_key_flags(app, settings);
  name_variables(app);

  parse(app, argc, argv);
  check_variables(app);
  choose_model(folder, argc, argv, settings.model);
  settings.unknown_variables = unknown_variables(app);
  // CLI11 leaves out a default file that is not there; one that somebody named is needed.
  if (is_set("TENON_CONFIG") && config->count() == 0) refuse_flag("--config", std::string("cannot read ") + named);
  normalise(settings);
  check(settings);
  return settings;
}

void Settings::resolve(const std::filesystem::path& model_folder, int context) {
  std::error_code ignored;
  // A name of the hub is found in a snapshot, whose folder is a hash.
  const bool is_name = !model.model.empty() && !std::filesystem::exists(model.model, ignored);
  if (served_model_names.empty()) served_model_names = {is_name ? model.model : last_component(model_folder)};

  if (model.lora == "none") {
    model.adapter_root.clear();
    hub_cache.clear();
    fetch.command.clear();
  } else if (!model.adapter_root.empty()) {
    if (!std::filesystem::is_directory(model.adapter_root, ignored))
      refuse_flag("--adapter-root", model.adapter_root + " is no folder");
  } else if (std::filesystem::is_directory(model_folder / "adapters", ignored)) {
    model.adapter_root = (model_folder / "adapters").string();
  }
  if (!hub_cache.empty() && !std::filesystem::is_directory(hub_cache, ignored))
    refuse_flag(hub_cache_env ? "--hub-cache-env" : "--hub-cache", hub_cache + " is no folder");
  if (!preload_adapters.empty() && model.adapter_root.empty() && hub_cache.empty() && fetch.command.empty())
    refuse_flag("--preload-adapters", "there is no folder of adapters: name it with --adapter-root");

  const std::string of_context = " tokens are more than the context of " + std::to_string(context);
  if (max_total_tokens > context) refuse_flag("--max-total-tokens", std::to_string(max_total_tokens) + of_context);
  if (max_total_tokens == 0) max_total_tokens = context;
  if (max_input_length == 0) {
    max_input_length = std::max(1, max_total_tokens - 1);
  } else if (max_input_length >= max_total_tokens) {
    refuse_flag("--max-input-length", std::to_string(max_input_length) + " tokens leave no room for an answer within " +
                                          std::to_string(max_total_tokens) + " (--max-total-tokens)");
  }
}

namespace {

std::string limits_of(const FetchOptions& fetch) {
  return as_seconds(fetch.timeout) + ", " + std::to_string(fetch.bytes) + " bytes each, " +
         std::to_string(fetch.total_bytes) + " in " + fetch.folder.string();
}

std::string timeouts_of(const Settings& s) {
  return "header " + as_seconds(s.header_timeout) + ", body " + as_seconds(s.body_timeout) + ", idle " +
         as_seconds(s.idle_timeout) + ", write " + as_seconds(s.write_timeout) + ", request " +
         (s.request_timeout.count() == 0 ? "none" : as_seconds(s.request_timeout)) + ", shutdown " +
         as_seconds(s.shutdown_timeout);
}

// The paged cache has whole blocks.
std::string cache_tokens_of(const ModelOptions& model) {
  if (model.cache_tokens == 0) return "by default";
  const std::string asked = std::to_string(model.cache_tokens);
  const int rest = model.cache == "paged" ? model.cache_tokens % model.block : 0;
  if (rest == 0) return asked;
  return std::to_string(std::int64_t{model.cache_tokens} + model.block - rest) + ", which is " + asked +
         " in whole blocks of " + std::to_string(model.block);
}

}  // namespace

std::vector<std::string> Settings::describe() const {
  std::vector<std::string> lines;
  const auto say = [&lines](const std::string& name, const auto& value) {
    if constexpr (std::is_convertible_v<decltype(value), std::string>)
      lines.push_back(name + " = " + std::string(value));
    else
      lines.push_back(name + " = " + std::to_string(value));
  };
  const auto on = [](bool value) { return value ? "on" : "off"; };
  const auto or_else = [](int value, const char* zero) { return value == 0 ? zero : std::to_string(value); };
  const auto or_none = [](const std::string& value) { return value.empty() ? std::string("none") : value; };
  say("served-model-name", listed(served_model_names));
  say("engine", model.weights + " weights, " + model.cache + " cache of " + model.kv + ", " + model.attention +
                    " attention, " + model.scheduler + " scheduler, " + model.lora + " adapters, on " + model.device);
  say("draft", model.draft);
  say("threads", or_else(model.threads, "all cores"));
  say("batch", model.batch);
  say("token-budget", model.token_budget);
  say("cache-tokens", cache_tokens_of(model));
  say("prefix-reuse", on(model.prefix_reuse));
  say("adapter-root", or_none(model.adapter_root));
  say("hub-cache", or_none(hub_cache));
  // Not its arguments: they may be secrets.
  say("adapter-fetch", fetch.command.empty() ? std::string("none") : fetch.command.front());
  if (!fetch.command.empty()) say("adapter-fetch-limits", limits_of(fetch));
  say("adapter-slots", or_else(model.adapter_slots, "any number"));
  say("adapter-wait", as_seconds(adapter_wait));
  say("preload-adapters", listed(preload_adapters));
  say("listen", unix_socket.empty() ? host_and_port(host, port) : unix_socket);
  say("tls", on(!tls_cert.empty()));
  say("keys", api_keys.empty() ? api_key_file.empty() ? "none" : "a file of them"
                               : std::to_string(api_keys.size()) + (api_key_file.empty() ? "" : " and a file of them"));
  say("adapter-admin", on(enable_adapter_admin));
  say("cors-origin", listed(cors_origins));
  say("allowed-host", listed(allowed_hosts));
  say("chat-template", chat_template);
  say("parse-special", on(parse_special));
  say("lenient", on(lenient));
  say("generation-config", on(generation_config));
  say("stream-interval", as_seconds(stream_interval));
  say("resume", resume_key_file.empty() ? std::string("off") : "for " + as_seconds(resume_timeout));
  say("handover", handover.empty() ? std::string("off") : handover.string());
  say("receipt-key", receipt_key_file.empty() ? "none" : receipt_key_file.string());
  say("metrics-compat", metrics_compat);
  say("ui", on(ui));
  say("log-requests", on(log_requests));
  say("connections", connections);
  say("max-concurrent-requests", max_concurrent_requests);
  say("max-concurrent-sequences", max_concurrent_sequences);
  say("max-concurrent-tokens", max_concurrent_tokens);
  say("default-max-new-tokens", or_else(default_max_new_tokens, "what is left"));
  say("max-input-length", max_input_length);
  say("max-total-tokens", max_total_tokens);
  say("max-stop-sequences", max_stop_sequences);
  say("max-best-of", max_best_of);
  say("max-n", max_n);
  say("payload-limit", payload_limit);
  say("timeouts", timeouts_of(*this));
  return lines;
}

}  // namespace serve
