// The counters of an engine, the last line on stderr of `tenon run` and `tenon verify`.
#pragma once
#include <cstdio>
#include <string>

#include "output.h"
#include "tenon/engine/stats.h"

namespace program {

inline void print_counters(const tenon::EngineStats& stats) {
  std::string line =
      "{\"steps\": " + std::to_string(stats.steps) + ", \"preemptions\": " + std::to_string(stats.preemptions) +
      ", \"prefix_hit_tokens\": " + std::to_string(stats.prefix_hit_tokens) +
      ", \"drafted\": " + std::to_string(stats.drafted) + ", \"accepted\": " + std::to_string(stats.accepted) +
      ", \"tokens\": " + std::to_string(stats.tokens) + ", \"seconds\": ";
  append_json_number(line, stats.seconds);
  line += "}\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace program
