// Adapter sites: the linears of a checkpoint that an adapter may update, their rows in the model's matrices, and the
// vectors that it may replace.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
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

/// A bias or a norm of the model, or the part of one that is a tensor of its own. Adapters may replace it.
struct AdapterVector {
  std::string tensor;  ///< PEFT's name of the tensor: "transformer.h.0.ln_1.bias"
  int layer = 0;
  std::optional<NormSite> norm = {};  ///< empty: the vector is the bias of the matrix of `site`
  Site site = Site::qkv;
  bool is_bias = true;          ///< of the norm; false: the gain
  int stored = 0, size = 0;     ///< elements of the tensor, and of the model's vector
  std::vector<OutputRun> runs;  ///< elements of the model's vector that come from the tensor
  float plus = 0, times = 1;    ///< an element is (stored + plus) * times
};

/// The model's weights as the engine computes with them, for adapters that change more than low-rank updates. Its
/// functions may be called from any thread. Empty functions: the engine runs no such adapters.
struct BaseWeights {
  /// Decodes one row of the matrix of a site. out: [inputs]
  std::function<void(int layer, Site site, int row, std::span<float> out)> read_row = {};
  /// Decodes the row of a token of the embedding or the head. out: [width]
  std::function<void(bool head, int token, std::span<float> out)> read_table = {};
  /// The bias of the matrix of a site, [outputs]; null: none.
  std::function<const float*(int layer, Site site)> bias = {};
  /// A norm of the model.
  std::function<NormChange(int layer, NormSite site)> norm = {};
};

/// All sites of a model.
struct AdapterSites {
  int layers = 0;
  std::vector<AdapterSite> sites;
  std::vector<AdapterVector> vectors = {};
  PeftBase base = {};  ///< base tensors that an adapter's file may repeat

  /// The linears of all sites, in the same order.
  std::vector<PeftModule> modules() const {
    std::vector<PeftModule> all;
    for (const AdapterSite& site : sites) all.push_back(site.module);
    return all;
  }
};

}  // namespace tenon
