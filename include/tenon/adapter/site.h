// Adapter sites: the linears of a checkpoint that an adapter may update, and their rows in the model's matrices.
#pragma once
#include <span>
#include <vector>

#include "tenon/checkpoint/peft.h"
#include "tenon/core/low_rank.h"

namespace tenon {

/// Consecutive outputs of a linear in the checkpoint, and their place in the model's matrix.
struct OutputRun {
  int stored = 0;  ///< first row in the checkpoint's linear
  int own = 0;     ///< first row in the model's matrix
  int count = 0;
};

/// A linear of the checkpoint that adapters may update.
struct AdapterSite {
  PeftModule module;  ///< the linear's path in PEFT, and its sizes
  int layer = 0;
  Site site = Site::qkv;
  int first_output = 0;  ///< first row in the matrix; the linear has rows [first_output, first_output + module.outputs)
  std::vector<OutputRun> runs;  ///< all outputs of the linear, ascending in `own`
};

/// All sites of a model.
struct AdapterSites {
  int layers = 0;
  std::vector<AdapterSite> sites;
  PeftBase base = {};  ///< base tensors that an adapter's file may repeat

  /// The linears of all sites, in the same order.
  std::vector<PeftModule> modules() const {
    std::vector<PeftModule> all;
    for (const AdapterSite& site : sites) all.push_back(site.module);
    return all;
  }
};

}  // namespace tenon
