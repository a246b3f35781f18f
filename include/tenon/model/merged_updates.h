// Low-rank updates that are added to the weights as they are read: W + scale * B A (Hu et al., 2021, section 4.1).
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tenon/adapter/options.h"
#include "tenon/adapter/site.h"
#include "tenon/core/request.h"

namespace tenon {

/// The updates of adapters that are merged when the model is loaded. It owns the factors, in float32.
class MergedUpdates {
 public:
  /// Reads the adapters and multiplies each by its weight. Errors: those of AdapterStore::lease.
  MergedUpdates(std::span<const AdapterUse> uses, const AdapterSites& sites, const AdapterOptions& options);

  /// Whether an adapter updates this tensor (a name without the model's prefix).
  bool updates(const std::string& tensor) const { return by_tensor_.contains(tensor); }

  /// Adds the updates to rows [first, first + count) of a tensor for which updates() is true. rows: [count, inputs].
  /// The sum over ranks is computed in double and rounded once.
  void add(const std::string& tensor, int first, int count, float* rows) const;

 private:
  struct Update {
    int rank, inputs;
    double scale;
    std::vector<float> a;  // [rank, inputs]
    std::vector<float> b;  // [outputs, rank], in the order of the file
  };
  std::map<std::string, std::vector<Update>> by_tensor_;  // by name, without the model's prefix
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/merged_updates-inl.h"
#endif
