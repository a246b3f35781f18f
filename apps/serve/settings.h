// What the server was asked for at its start: flags, then the environment, then a file, the stronger first.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "options.h"
#include "serve/fetch/adapter_fetcher.h"

namespace serve {

// A server has clients, between whom it is fair, and who name adapters: these could fill the memory.
inline program::ModelOptions model_defaults() {
  program::ModelOptions options;
  options.adapter_slots = 128;
  options.scheduler = "fair";
  return options;
}

struct Settings {
  program::ModelOptions model = model_defaults();  // adapter_root empty: no adapters (not, as elsewhere, any folder)

  std::string host = "127.0.0.1";
  int port = 8080;                              // 0: a free one
  std::string unix_socket;                      // path, instead of an address; empty: none
  std::string tls_cert, tls_key;                // PEM files; empty: no TLS
  std::vector<std::string> served_model_names;  // the first is what answers say; after resolve() never empty
  std::vector<std::string> preload_adapters;
  std::string hub_cache;             // folder of huggingface_hub's cache; empty: none
  bool hub_cache_env = false;        // hub_cache is the folder that the environment names
  std::string adapter_fetch;         // a command line; empty: nothing is fetched
  std::string adapter_fetch_folder;  // empty: none
  FetchOptions fetch;                // of both, after parse_settings
  std::chrono::milliseconds adapter_wait{30'000};
  std::chrono::milliseconds stream_interval{10};  // between two writes of a stream, at least; 0: each token is one

  bool generation_config = false;  // defaults of sampling from the model's generation_config.json

  int connections = 2048;                        // fewer if descriptors are few
  int max_concurrent_requests = 64;              // running and waiting
  int max_concurrent_sequences = 2048;           // of those requests: prompts x choices
  std::int64_t max_concurrent_tokens = 1 << 20;  // of those sequences: prompts and longest answers
  int default_max_new_tokens = 100;              // of a request to /generate that names no length; 0: what is left
  int max_input_length = 0;                      // tokens; 0 until resolve()
  int max_total_tokens = 0;                      // tokens; 0 until resolve()
  int max_stop_sequences = 10;
  int max_best_of = 2;
  int max_n = 8;
  std::size_t payload_limit = 2'000'000;  // bytes of a body

  std::chrono::milliseconds header_timeout{5'000}, body_timeout{30'000}, idle_timeout{65'000}, write_timeout{10'000};
  std::chrono::milliseconds request_timeout{0};  // 0: none
  std::chrono::milliseconds shutdown_timeout{30'000};

  std::filesystem::path resume_key_file;                // for ids of resumable streams; empty: there are none
  std::chrono::milliseconds resume_timeout{3'600'000};  // such a stream can be continued for so long after its begin

  std::filesystem::path handover;                       // folder of streams that are handed over; empty: none is
  std::chrono::milliseconds handover_timeout{300'000};  // so long they wait there, and then for their clients
  std::filesystem::path receipt_key_file;               // Ed25519 key that signs receipts; empty: they are not signed

  std::filesystem::path api_key_file;  // empty: none
  std::vector<std::string> api_keys;
  bool insecure = false;  // beyond this machine without a key
  bool enable_adapter_admin = false;
  bool ui = true;
  std::vector<std::string> cors_origins;   // of pages that may ask
  std::vector<std::string> allowed_hosts;  // names of this server, in lower case, whose own pages may ask

  bool lenient = false;                 // unknown fields of requests are left out, not refused
  bool parse_special = true;            // special tokens spelled in raw prompts are tokens
  std::string chat_template = "auto";   // a word of kChatTemplates, or the path of a file with a template
  std::string metrics_compat = "vllm";  // or none
  bool log_requests = true;

  std::vector<std::string> unknown_variables;  // of the environment: TENON_... that names no flag

  // What depends on the model: the name it is served under, the folder of its adapters, the lengths. `context` is the
  // longest sequence that the engine takes. program::UsageError where what was asked for does not fit.
  void resolve(const std::filesystem::path& model_folder, int context);

  // Places for clients that have nothing under way, beyond max_concurrent_requests and beyond the batch.
  int guests() const { return std::max(1, max_concurrent_requests / 8); }

  bool has_key() const { return !api_keys.empty() || !api_key_file.empty(); }

  // A line a setting, for the start's messages; of keys only how many.
  std::vector<std::string> describe() const;
};

inline constexpr const char* kChatTemplates[] = {"auto",   "none",   "plain",   "chatml",
                                                 "llama2", "llama3", "mistral", "zephyr"};

// --help or --version: what() is for standard output, and the exit status 0.
class InformationAsked : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// program::UsageError, which names the flag; never a key.
Settings parse_settings(int argc, char** argv);

}  // namespace serve
