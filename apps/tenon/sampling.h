// The numeric sampling parameters in one list: fields of a request of `tenon run` (top_p) and options of `tenon
// generate` (--top-p).
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "tenon/checkpoint/generation_config.h"
#include "tenon/core/request.h"
#include "tenon/model/files.h"

namespace program {

template <class Number>
struct SamplingParameter {
  const char* name;
  Number tenon::Options::*member;
  const char* help;
};

inline constexpr SamplingParameter<float> kFloatParameters[] = {
    {"temperature", &tenon::Options::temperature, "0 is greedy, ties to the lowest id"},
    {"top_p", &tenon::Options::top_p, "keep the smallest set of likeliest tokens with this mass"},
    {"min_p", &tenon::Options::min_p, "drop tokens below this part of the likeliest one"},
    {"typical_p", &tenon::Options::typical_p, "locally typical sampling"},
    {"repetition_penalty", &tenon::Options::repetition_penalty, "above 1: seen tokens become less likely"},
    {"presence_penalty", &tenon::Options::presence_penalty, "subtracted once from tokens generated before"},
    {"frequency_penalty", &tenon::Options::frequency_penalty, "subtracted for each time a token was generated"},
};

inline constexpr SamplingParameter<int> kIntParameters[] = {
    {"max_new_tokens", &tenon::Options::max_new_tokens, "0: only read the prompt"},
    {"top_k", &tenon::Options::top_k, "keep the k likeliest tokens; 0: all"},
};

// The options, with the defaults of generation_config.json for all parameters that are not in `given`.
inline tenon::Options with_generation_config(const tenon::ModelFiles& files, const tenon::Options& options,
                                             const std::vector<std::string>& given) {
  tenon::Options all = options;
  tenon::set_generation_defaults(*files.config, all);
  const auto keep = [&](const auto& parameters) {
    for (const auto& each : parameters)
      if (std::find(given.begin(), given.end(), each.name) != given.end()) all.*each.member = options.*each.member;
  };
  keep(kFloatParameters);
  keep(kIntParameters);
  return all;
}

}  // namespace program
