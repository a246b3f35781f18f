// The model below an adapter. PEFT's files may hold copies of its tensors: embeddings that were saved with the
// factors.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/checkpoint/peft_targets.h"
#include "tenon/checkpoint/safetensors.h"
#include "tenon/core/adapter_task.h"
#include "tenon/core/require.h"

namespace tenon {

/// The part of a model that PeftAdapter needs.
struct PeftBase {
  std::shared_ptr<const Checkpoint> tensors = {};  ///< null: the weights were drawn at random, there is no file
  std::string prefix = {};                         ///< "transformer.": names in the model's file may lack it
  /// Paths of the embedding and the head, "transformer.wte" and "lm_head". Empty where unknown, and if it has none.
  std::string embedding = {};
  std::string head = {};
  bool tied_head = false;    ///< the head shares the embedding's weight
  bool head_bias = false;    ///< the head has a bias, which PEFT leaves out of rows of single tokens
  int vocab = 0, width = 0;  ///< of the embedding and the head; 0: adapters cannot change them
  /// Elements of the biases and norms that an adapter may replace, by name: "transformer.h.0.ln_1.bias".
  std::map<std::string, int> vectors = {};
  int head_width = 0;            ///< elements of the rows that heads multiply
  int labels = 0;                ///< of the model's own classification head; 0: it has none
  std::string stored_head = {};  ///< the file's name of the head, if `head` is another one
  std::string file_prefix = {};  ///< of names in a model's file that has another one than `prefix`
  /// Beginnings of names in older adapters, and what PEFT replaces them by. The first that fits counts.
  std::vector<std::pair<std::string, std::string>> older_names = {};
  std::string left_out = {};  ///< `prefix`, if the adapter's names lack it: it was trained on the model without heads

  /// The model as PEFT's class for the task wraps it. Only AdapterTask::text has its heads.
  PeftBase for_task(AdapterTask task) const;
  /// GPT-NeoX's head is called embed_out in files and in transformers 4, and lm_head in transformers 5.
  void rename_head(std::string_view file_name, std::string_view module_name);
  /// Gives the tensors of an adapter the names of this model where they have older ones. Error invalid_file if two get
  /// one name.
  void rename_older(Checkpoint& adapter) const;
  /// Leaves `prefix` out of the names of the modules and of this base.
  void leave_prefix_out(std::vector<PeftModule>& modules);

  /// Paths of the modules outside the layers that PEFT can update and tenon cannot: of the embedding and the head, if
  /// adapters cannot change them, and of the classification head.
  std::vector<std::string> others() const;
  /// The embedding and the head as modules; empty if adapters cannot change them.
  std::vector<PeftModule> tables() const;

  /// The model's tensor that the adapter's tensor `stored` would overwrite in PEFT. `stored` is "base_model.model." and
  /// the tensor's name, in which a module below an adapter is called base_layer or token_adapter.base_layer. Null where
  /// the model has no such tensor.
  const TensorInfo* find(std::string_view stored) const;

  /// The model's name of the tensor that `stored` would overwrite: without "base_model.model." and base_layer, and with
  /// the prefix. Empty where `stored` begins otherwise.
  std::string name_of(std::string_view stored) const;

  /// Whether the two tensors hold the same numbers, whatever their types. If so, loading `copy` into a float32 model in
  /// PEFT changes nothing. NaN equals nothing. Reads both tensors. Errors as Checkpoint::read_bytes.
  bool holds(const Checkpoint& file, const TensorInfo& copy, const TensorInfo& own) const;
};

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/peft_base-inl.h"
#endif
