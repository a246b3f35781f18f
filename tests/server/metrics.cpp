#include "serve/ops/metrics.h"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "serve/ops/exposition.h"

BOOST_AUTO_TEST_SUITE(server_metrics)

using namespace serve;

namespace {

// A page as Prometheus reads it: every rule of the text format that it may break is checked on the way.
struct Page {
  std::map<std::string, std::string> types;
  std::map<std::string, double> samples;  // by name and labels, as written

  explicit Page(const std::string& text) {
    static const std::regex sample(R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[^{}]*\})? ([-+0-9.eEinfNaI]+))re");
    static const std::regex labels(R"re(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\})re");
    BOOST_TEST(text.ends_with("\n"));
    std::istringstream lines(text);
    std::string family;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string hash, what, name, type;
      if (line.starts_with("#")) {
        words >> hash >> what >> name >> type;
        BOOST_TEST((what == "HELP" || what == "TYPE"), line);
        BOOST_TEST(!types.contains(name), "twice: " << line);
        if (what == "TYPE") {
          types[name] = type;
          BOOST_TEST(name == family);
        }
        family = name;
        continue;
      }
      std::smatch match;
      BOOST_REQUIRE_MESSAGE(std::regex_match(line, match, sample), line);
      const std::string full = match[1], label = match[2];
      BOOST_TEST((label.empty() || std::regex_match(label, labels)), line);
      std::string base = full;
      if (types[family] == "histogram")
        for (const char* suffix : {"_bucket", "_sum", "_count"})
          if (base.ends_with(suffix)) base.resize(base.size() - std::string(suffix).size());
      BOOST_TEST(base == family, "outside its family: " << line);
      BOOST_TEST(!samples.contains(full + label), "twice: " << line);
      samples[full + label] = std::strtod(match[3].str().c_str(), nullptr);
    }
  }

  double operator[](const std::string& sample) const {
    BOOST_REQUIRE_MESSAGE(samples.contains(sample), "no " << sample);
    return samples.at(sample);
  }
};

Snapshot snapshot_of(std::vector<std::string> resident = {}) {
  Snapshot s;
  s.model = "tales";
  s.resident = std::move(resident);
  return s;
}

constexpr const char* kModel = "{model_name=\"tales\"}";

}  // namespace

BOOST_AUTO_TEST_CASE(all_names_are_there_from_the_start) {
  const Page page(Metrics().text(snapshot_of()));
  for (const char* name : {"lorax_request_count", "lorax_request_success", "lorax_request_failure"})
    BOOST_TEST(page.types.at(name) == "counter");
  for (const char* name : {"duration", "validation_duration", "queue_duration", "inference_duration",
                           "mean_time_per_token_duration", "input_length", "max_new_tokens", "generated_tokens"})
    BOOST_TEST(page.types.at(std::string("lorax_request_") + name) == "histogram");
  for (const char* name : {"validation", "overloaded", "generation", "incomplete", "dropped", "download_adapter",
                           "load_adapter", "offload_adapter"})
    BOOST_TEST(page["lorax_request_failure{err=\"" + std::string(name) + "\"}"] == 0);
  BOOST_TEST(page.types.at("lorax_batch_next_size") == "histogram");
  BOOST_TEST(page.types.at("lorax_queue_length") == "gauge");
  for (const char* name : {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
                           "vllm:lora_requests_info", "process_resident_memory_bytes", "process_open_fds",
                           "process_threads", "tenon_build_info", "tenon_adapters_resident"})
    BOOST_TEST(page.types.at(name) == "gauge");
  BOOST_TEST(page.types.at("tenon_log_lines_lost_total") == "counter");
  for (const char* name : {"prompt_tokens_total", "generation_tokens_total", "request_success_total",
                           "prefix_cache_queries_total", "prefix_cache_hits_total"})
    BOOST_TEST(page.types.at(std::string("vllm:") + name) == "counter");
  for (const char* name : {"time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
                           "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
                           "request_prompt_tokens", "request_generation_tokens", "time_per_output_token_seconds"})
    BOOST_TEST(page.types.at(std::string("vllm:") + name) == "histogram");
  // Counters of our own end in _total, and nothing else does.
  for (const auto& [name, type] : page.types)
    if (!name.starts_with("lorax_")) BOOST_TEST((type == "counter") == name.ends_with("_total"), name);
  BOOST_TEST(page["process_resident_memory_bytes"] > 1e6);
  BOOST_TEST(page["process_open_fds"] >= 3);
  BOOST_TEST(page["process_threads"] >= 1);
  BOOST_TEST(page["process_start_time_seconds"] > 1.6e9);
}

BOOST_AUTO_TEST_CASE(requests_are_counted) {
  Metrics metrics;
  for (int i = 0; i < 4; ++i) metrics.request_begins();
  metrics.request_failed(FailureKind::dropped);
  metrics.request_finished({.adapter = "a",
                            .prompt_tokens = 7,
                            .generated_tokens = 4,
                            .max_new_tokens = 16,
                            .reason = tenon::FinishReason::stop,
                            .total = 2,
                            .validation = 0.25,
                            .queue = 0.25,
                            .inference = 1.5,
                            .first_token = 1,
                            .per_output_token = 0.25});
  metrics.request_finished({.prompt_tokens = 2, .generated_tokens = 0});
  metrics.token_gap(0.02);
  metrics.token_gap(1000);
  const Page page(metrics.text(snapshot_of({"a"})));
  BOOST_TEST(page["lorax_request_count"] == 4);
  BOOST_TEST(page["lorax_request_success"] == 2);
  BOOST_TEST(page["lorax_request_failure{err=\"dropped\"}"] == 1);
  BOOST_TEST(page["lorax_request_duration_sum"] == 2);
  BOOST_TEST(page["lorax_request_duration_count"] == 2);
  BOOST_TEST(page["lorax_request_duration_bucket{le=\"0.00015\"}"] == 1);
  BOOST_TEST(page["lorax_request_duration_bucket{le=\"+Inf\"}"] == 2);
  BOOST_TEST(page["lorax_request_mean_time_per_token_duration_sum"] == 0.375);
  BOOST_TEST(page["vllm:prompt_tokens_total" + std::string(kModel)] == 9);
  BOOST_TEST(page["vllm:generation_tokens_total" + std::string(kModel)] == 4);
  BOOST_TEST(page["vllm:request_success_total{finished_reason=\"stop\",model_name=\"tales\"}"] == 1);
  BOOST_TEST(page["vllm:request_prefill_time_seconds_sum" + std::string(kModel)] == 0.5);
  BOOST_TEST(page["vllm:request_decode_time_seconds_sum" + std::string(kModel)] == 1);
  BOOST_TEST(page["vllm:time_to_first_token_seconds_count" + std::string(kModel)] == 1);
  BOOST_TEST(page["vllm:inter_token_latency_seconds_bucket{model_name=\"tales\",le=\"0.01\"}"] == 0);
  BOOST_TEST(page["vllm:inter_token_latency_seconds_bucket{model_name=\"tales\",le=\"0.025\"}"] == 1);
  BOOST_TEST(page["vllm:inter_token_latency_seconds_count" + std::string(kModel)] == 2);
  BOOST_TEST(page["tenon_adapter_requests_total{adapter=\"a\"}"] == 1);
  BOOST_TEST(page["tenon_adapter_requests_total{adapter=\"__base_model__\"}"] == 1);
}

BOOST_AUTO_TEST_CASE(buckets_ascend_and_end_at_the_count) {
  Metrics metrics;
  for (double seconds = 1e-5; seconds < 1e4; seconds *= 1.3) metrics.request_finished({.total = seconds});
  const std::string text = metrics.text(snapshot_of());
  std::istringstream lines(text);
  double last = 0, bound = 0;
  int buckets = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("lorax_request_duration_bucket{le=\"")) continue;
    const double value = std::strtod(line.substr(line.rfind(' ')).c_str(), nullptr);
    const double le = std::strtod(line.substr(34).c_str(), nullptr);
    BOOST_TEST(value >= last);
    BOOST_TEST(le > bound);
    last = value, bound = le;
    ++buckets;
  }
  BOOST_TEST(buckets == 36);
  BOOST_TEST(Page(text)["lorax_request_duration_count"] == last);
}

BOOST_AUTO_TEST_CASE(gauges_are_what_the_service_says) {
  Snapshot s = snapshot_of();
  s.service.open = 5;
  s.service.waiting = 2;
  s.service.cache = {1024, 100, 25};
  s.service.engine.steps = 10;
  s.service.engine.sequences = 40;
  s.service.engine.prefix_hit_tokens = 12;
  s.adapters = {.resident = 3, .bytes = 77, .waiting = 1, .loads = 9, .evictions = 6, .failures = 2};
  s.running_adapters = {"a", "b/c"};
  s.waiting_adapters = {"d"};
  s.adapter_slots = 4;
  const Page page(Metrics().text(s));
  BOOST_TEST(page["vllm:num_requests_running" + std::string(kModel)] == 3);
  BOOST_TEST(page["vllm:num_requests_waiting" + std::string(kModel)] == 3);
  BOOST_TEST(page["lorax_queue_length"] == 3);
  BOOST_TEST(page["vllm:kv_cache_usage_perc" + std::string(kModel)] == 0.25);
  BOOST_TEST(page["lorax_batch_next_size_sum"] == 40);
  BOOST_TEST(page["lorax_batch_next_size_bucket{le=\"+Inf\"}"] == 10);
  BOOST_TEST(page["vllm:prefix_cache_hits_total" + std::string(kModel)] == 12);
  BOOST_TEST(page["vllm:prefix_cache_queries_total" + std::string(kModel)] == 12);
  BOOST_TEST(page["tenon_adapters_resident"] == 3);
  BOOST_TEST(page["tenon_adapter_evictions_total"] == 6);
  const std::string info = "{max_lora=\"4\",running_lora_adapters=\"a,b/c\",waiting_lora_adapters=\"d\"}";
  BOOST_TEST(page["vllm:lora_requests_info" + info] > 1.6e9);
  s.vllm = false;
  for (const auto& [name, type] : Page(Metrics().text(s)).types) BOOST_TEST(!name.starts_with("vllm:"));
}

BOOST_AUTO_TEST_CASE(adapters_that_left_are_others_and_others_never_fall) {
  Metrics metrics;
  const auto finish = [&](const std::string& adapter) {
    metrics.request_finished({.adapter = adapter, .prompt_tokens = 3, .generated_tokens = 2});
  };
  finish("a"), finish("a"), finish("b"), finish("other");
  const auto page = [&](std::vector<std::string> resident) {
    return Page(metrics.text(snapshot_of(std::move(resident))));
  };
  const std::string other = "tenon_adapter_requests_total{adapter=\"other\"}";
  {
    const Page first = page({"a", "other"});
    BOOST_TEST(first["tenon_adapter_requests_total{adapter=\"a\"}"] == 2);
    BOOST_TEST(first[other] == 2);  // b, and the adapter of that name
  }
  BOOST_TEST(page({})[other] == 4);
  finish("a");
  const Page back = page({"a"});
  BOOST_TEST(back[other] == 4);
  BOOST_TEST(back["tenon_adapter_requests_total{adapter=\"a\"}"] == 1);
}

BOOST_AUTO_TEST_CASE(usage_is_counted_by_key_and_adapter) {
  Metrics metrics;
  const auto finish = [&](const std::string& key, const std::string& adapter) {
    metrics.request_finished({.key = key, .adapter = adapter, .prompt_tokens = 3, .generated_tokens = 2});
  };
  finish("", "a");
  BOOST_TEST(metrics.text(snapshot_of({"a"})).find("tenon_key_") == std::string::npos);  // no keys
  finish("team", "a"), finish("team", ""), finish("team", ""), finish("team", "gone"), finish("ops", "a");
  metrics.rate_limited("team");
  const Page page(metrics.text(snapshot_of({"a"})));
  const auto of = [&](const std::string& what, const std::string& key, const std::string& adapter) {
    return page["tenon_key_" + what + "_total{key=\"" + key + "\",adapter=\"" + adapter + "\"}"];
  };
  BOOST_TEST(of("requests", "team", "a") == 1);
  BOOST_TEST(of("requests", "team", "__base_model__") == 2);
  BOOST_TEST(of("requests", "team", "other") == 1);
  BOOST_TEST(of("prompt_tokens", "team", "__base_model__") == 6);
  BOOST_TEST(of("generated_tokens", "ops", "a") == 2);
  BOOST_TEST(page["tenon_key_rate_limited_total{key=\"team\"}"] == 1);
  BOOST_TEST(page["tenon_adapter_requests_total{adapter=\"a\"}"] == 3);
}

BOOST_AUTO_TEST_CASE(memory_is_bounded_when_nobody_looks) {
  Metrics metrics;
  for (int i = 0; i < 5000; ++i) metrics.request_finished({.adapter = "adapter-" + std::to_string(i)});
  std::vector<std::string> resident;
  for (int i = 0; i < 5000; ++i) resident.push_back("adapter-" + std::to_string(i));
  const Page page(metrics.text(snapshot_of(resident)));
  BOOST_TEST(page["tenon_adapter_requests_total{adapter=\"other\"}"] == 5000 - 1024);
}

BOOST_AUTO_TEST_CASE(label_values_are_escaped) {
  Exposition out;
  out.gauge("a", "Help.", 1, {{"name", "q\"b\\n\nl"}});
  BOOST_TEST(out.take() == "# HELP a Help.\n# TYPE a gauge\na{name=\"q\\\"b\\\\n\\nl\"} 1\n");
}

BOOST_AUTO_TEST_CASE(numbers_are_shortest_and_never_break_the_format) {
  Exposition out;
  out.family("a", "gauge", "Help.");
  out.sample({}, 1e-5);
  out.sample({}, std::numeric_limits<double>::infinity());
  out.sample({}, std::numeric_limits<double>::quiet_NaN());
  out.sample({}, std::numeric_limits<std::uint64_t>::max());
  BOOST_TEST(out.take() == "# HELP a Help.\n# TYPE a gauge\na 1e-05\na +Inf\na NaN\na 18446744073709551615\n");
  Metrics metrics;
  metrics.token_gap(std::numeric_limits<double>::quiet_NaN());
  BOOST_TEST(Page(metrics.text(snapshot_of()))["vllm:inter_token_latency_seconds_sum" + std::string(kModel)] == 0);
}

BOOST_AUTO_TEST_CASE(many_threads_count_and_look) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&metrics, t] {
      for (int i = 0; i < 500; ++i) {
        metrics.request_begins();
        metrics.token_gap(0.01);
        metrics.request_finished({.adapter = "a" + std::to_string(t)});
        if (i % 100 == 0) metrics.text(snapshot_of({"a0"}));
      }
    });
  }
  for (auto& each : threads) each.join();
  const Page page(metrics.text(snapshot_of({"a0"})));
  BOOST_TEST(page["lorax_request_count"] == 2000);
  BOOST_TEST(page["lorax_request_success"] == 2000);
  BOOST_TEST(page["tenon_adapter_requests_total{adapter=\"other\"}"] == 1500);
}

BOOST_AUTO_TEST_SUITE_END()
