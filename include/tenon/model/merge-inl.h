#pragma once
#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "tenon/checkpoint/peft_fields.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"
#include "tenon/io/file.h"
#include "tenon/io/json.h"
#include "tenon/io/new_file.h"
#include "tenon/model/merge.h"
#include "tenon/model/tensor_source.h"

namespace tenon::detail {

// Plans the tensors of a merged checkpoint.
class MergePlanner {
 public:
  MergePlanner(const ModelFiles& files, const MergeModel& model, const AdapterSites& sites, const PeftAdapter& adapter,
               const MergeOptions& options, const ReadMergeModel& read)
      : files_(files),
        model_(model),
        modules_(sites.modules()),
        base_(sites.base),
        adapter_(adapter),
        dtype_(options.dtype),
        read_(read),
        source_(files, model.prefix) {
    const auto matrix = [&](const MatrixSpec& m) {
      for (const TensorPart& part : m.parts)
        if (part.transposed) inputs_first_.insert(part.name);
    };
    const auto vector = [](const VectorSpec&) {};
    visit_parts(model.spec, model.config.tied_head, {matrix, matrix, vector});
  }

  MergePlan plan() {
    if (!adapter_.config().invocation_tokens.empty())
      refuse_peft("alora_invocation_tokens",
                  "activated LoRA begins only at its invocation tokens, and cannot be merged into the weights");
    for (const TensorInfo& tensor : files_.tensors->tensors())
      plan_.tensors.push_back({.plan = {tensor.name, type_of(tensor), tensor.shape}, .source = &tensor});
    for (const PeftFactors& each : adapter_.factors()) add(each);
    for (const PeftScale& each : adapter_.scales()) add(each);
    for (const PeftReplacement& each : adapter_.replacements())
      tensor_of(source_.find(without_prefix(each.name))).own = each.tensor;
    add_tables();
    add_classifier();
    add_missing_biases();
    return std::move(plan_);
  }

 private:
  DType type_of(const TensorInfo& tensor) const {
    const bool coded = tensor.decoder || is_block(tensor.dtype);
    if (!coded && !is_weight(tensor.dtype)) return tensor.dtype;  // a mask or an index
    if (dtype_) return *dtype_;
    if (!coded) return tensor.dtype;
    throw Error(Error::Kind::unsupported, files_.tensors->where(tensor),
                "is quantised (" + std::string(dtype_name(tensor.dtype)) +
                    "); --dtype float32, bfloat16 or float16 decodes the weights to that type");
  }

  MergedTensor& tensor_of(const TensorInfo& source) {
    const auto found = std::find_if(plan_.tensors.begin(), plan_.tensors.end(),
                                    [&](const MergedTensor& each) { return each.source == &source; });
    if (found == plan_.tensors.end()) throw Error(Error::Kind::internal, source.name, "is not planned");
    return *found;
  }

  std::string without_prefix(const std::string& name) const { return name.substr(base_.prefix.size()); }

  void add(const PeftFactors& f) {
    const std::string linear = without_prefix(modules_[f.module].path);
    MergedTensor& weight = tensor_of(source_.find(linear + ".weight"));
    weight.update = &f;
    weight.inputs_first = inputs_first_.contains(linear + ".weight");
    if (!f.b_bias) return;
    if (base_.vectors.contains(modules_[f.module].path + ".bias"))
      tensor_of(source_.find(linear + ".bias")).bias_update = &f;
    else
      missing_biases_.emplace(linear + ".bias", &f);
  }

  void add(const PeftScale& each) {
    const std::string linear = without_prefix(modules_[each.module].path);
    MergedTensor& weight = tensor_of(source_.find(linear + ".weight"));
    weight.scale = &each;
    weight.inputs_first = inputs_first_.contains(linear + ".weight");
    // PEFT multiplies outputs with the bias.
    if (!each.of_inputs && base_.vectors.contains(modules_[each.module].path + ".bias"))
      tensor_of(source_.find(linear + ".bias")).scale = &each;
  }

  // A tensor with the values of `base`, changed as the table says.
  static MergedTensor with_table(const MergedTensor& base, const PeftTable* table) {
    MergedTensor tensor{.plan = base.plan, .source = base.source};
    if (!table) return tensor;
    tensor.own = table->rows;
    tensor.tokens = &table->tokens;
    tensor.update = table->update.a ? &table->update : nullptr;
    tensor.inputs_first = !table->head;
    return tensor;
  }

  void add_tables() {
    const PeftTable *embedding = nullptr, *head = nullptr;
    for (const PeftTable& each : adapter_.tables()) (each.head ? head : embedding) = &each;
    if (!embedding && !head) return;
    MergedTensor& table = tensor_of(source_.find(model_.spec.embedding.parts.front().name));
    const MergedTensor base = table;
    table = with_table(base, embedding);
    if (!model_.config.tied_head) {
      MergedTensor& own = tensor_of(source_.find(model_.spec.head.parts.front().name));
      own = with_table(own, head);
      return;
    }
    const MergedTensor changed_head = with_table(base, head);
    const bool same = embedding && head && same_values(table, changed_head);
    if (model_.config.language_head) return same ? drop_head_copy() : untie(changed_head);
    if (head && !same)
      throw Error(Error::Kind::unsupported, adapter_.tensors().where(*(head->rows ? head->rows : head->update.a)),
                  "changes a language head, which the model does not have");
  }

  void add_classifier() {
    const TensorInfo* const own = adapter_.classifier();
    if (!own) return;
    if (!model_.spec.score.parts.empty()) {
      MergedTensor& score = tensor_of(source_.find(model_.spec.score.parts.front().name));
      score.own = own;
      if (score.plan.shape == own->shape) return;
    }
    throw Error(Error::Kind::unsupported, adapter_.tensors().where(*own),
                "is a classification head, and the base has none of this shape that it could replace");
  }

  bool same_values(const MergedTensor& a, const MergedTensor& b) const {
    if (*a.tokens != *b.tokens || !a.own != !b.own) return false;
    if (a.own != b.own && !same_floats(*a.own, *b.own)) return false;
    return TensorMerger(a, *files_.tensors, adapter_).change() == TensorMerger(b, *files_.tensors, adapter_).change();
  }

  // Compares two tensors of the adapter.
  bool same_floats(const TensorInfo& a, const TensorInfo& b) const {
    if (a.shape != b.shape) return false;
    std::uint64_t count = 1;
    for (const std::uint64_t dim : a.shape) count *= dim;
    constexpr std::uint64_t block = 64 * 1024;
    std::vector<float> left, right;
    for (std::uint64_t first = 0; first < count; first += block) {
      left.resize(static_cast<std::size_t>(std::min(block, count - first)));
      right.resize(left.size());
      adapter_.tensors().read_elements(a, first, left);
      adapter_.tensors().read_elements(b, first, right);
      if (left != right) return false;
    }
    return true;
  }

  using Flags = std::vector<std::pair<std::string, bool>>;
  MergeModel with_flags(const Flags& flags) const { return read_(files_.config->with(flags)); }

  // The fields that untie the head. LFM2's older name of the field wins where the file has it.
  Flags untying_flags() const {
    Flags flags = {{"tie_word_embeddings", false}};
    if (files_.config->fields().json().contains("tie_embedding")) flags.emplace_back("tie_embedding", false);
    return flags;
  }

  // Name of the head's tensor in a checkpoint that is not tied; empty: the family has none.
  std::string untied_head() const {
    const MergeModel untied = with_flags(untying_flags());
    return untied.config.tied_head || untied.spec.head.parts.empty() ? "" : untied.spec.head.parts.front().name;
  }

  // Some uploads have the head of a tied model as a copy of the embedding, which would no longer be equal.
  void drop_head_copy() {
    const std::string name = untied_head();
    for (const std::string& each : {std::string(model_.prefix) + name, name}) {
      const auto removed = std::erase_if(plan_.tensors, [&](const MergedTensor& t) { return t.plan.name == each; });
      if (removed > 0) plan_.left_out.push_back(each);
    }
  }

  void untie(MergedTensor head) {
    const std::string name = untied_head();
    if (name.empty())
      throw Error(
          Error::Kind::unsupported, "config.json: tie_word_embeddings",
          "the adapter makes embedding and head differ, and model_type " + model_type_of(files_) + " always ties them");
    drop_head_copy();
    head.plan.name = name;
    if (std::erase(plan_.left_out, name) == 0) plan_.added.push_back(name);
    plan_.tensors.push_back(std::move(head));
    for (const auto& flag : untying_flags()) plan_.flags.push_back(flag);
  }

  // Turns on a field of config.json that gives the model the biases. The other biases that it then has are zeros.
  void add_missing_biases() {
    if (missing_biases_.empty()) return;
    const std::initializer_list<Flags> choices = {{{"attention_bias", true}},
                                                  {{"mlp_bias", true}},
                                                  {{"attention_bias", true}, {"mlp_bias", true}},
                                                  {{"conv_bias", true}}};
    for (const Flags& choice : choices) {
      Flags flags = plan_.flags;
      flags.insert(flags.end(), choice.begin(), choice.end());
      const std::map<std::string, int> vectors = vectors_of(with_flags(flags));
      const auto has = [&](const auto& missing) { return vectors.contains(missing.first); };
      if (!std::all_of(missing_biases_.begin(), missing_biases_.end(), has)) continue;
      plan_.flags = flags;
      return add_biases(vectors);
    }
    const auto& [name, factors] = *missing_biases_.begin();
    throw Error(Error::Kind::unsupported, adapter_.tensors().where(*factors->b_bias),
                "is a bias of a linear that has none, and model_type " + model_type_of(files_) + " has no tensor for " +
                    printable(name));
  }

  static std::map<std::string, int> vectors_of(const MergeModel& model) {
    std::map<std::string, int> all;  // elements, by name
    const auto matrix = [](const MatrixSpec&) {};
    const auto vector = [&](const VectorSpec& v) {
      for (const TensorPart& part : v.parts) all.emplace(part.name, part.stored_rows());
    };
    visit_parts(model.spec, model.config.tied_head, {matrix, matrix, vector});
    return all;
  }

  void add_biases(const std::map<std::string, int>& vectors) {
    const std::map<std::string, int> known = vectors_of(model_);
    for (const auto& [name, size] : vectors) {
      if (known.contains(name)) continue;
      const TensorInfo& weight = source_.find(name.substr(0, name.rfind('.')) + ".weight");
      const bool prefixed = weight.name.starts_with(model_.prefix);
      MergedTensor bias{.plan = {(prefixed ? std::string(model_.prefix) : "") + name,
                                 tensor_of(weight).plan.dtype,
                                 {static_cast<std::uint64_t>(size)}}};
      if (const auto found = missing_biases_.find(name); found != missing_biases_.end())
        bias.bias_update = found->second;
      plan_.added.push_back(bias.plan.name);
      plan_.tensors.push_back(std::move(bias));
    }
  }

  const ModelFiles& files_;
  const MergeModel& model_;
  const std::vector<PeftModule> modules_;
  const PeftBase& base_;
  const PeftAdapter& adapter_;
  const std::optional<DType> dtype_;
  const ReadMergeModel& read_;
  const TensorSource source_;
  std::set<std::string> inputs_first_;                        // names of tensors, without the prefix
  std::map<std::string, const PeftFactors*> missing_biases_;  // likewise
  MergePlan plan_;
};

TENON_INLINE MergePlan plan_merge(const ModelFiles& files, const MergeModel& model, const AdapterSites& sites,
                                  const PeftAdapter& adapter, const MergeOptions& options, const ReadMergeModel& read) {
  return MergePlanner(files, model, sites, adapter, options, read).plan();
}

TENON_INLINE std::vector<std::string> set_config_fields(const std::filesystem::path& folder, const MergePlan& plan,
                                                        std::optional<DType> dtype) {
  constexpr std::uint64_t most = 64u << 20;  // bytes
  OrderedJson config = parse_json<OrderedJson>(read_text_file(folder / "config.json", most), "config.json");
  const bool nested = ConfigFile(folder).has_text_config();
  std::vector<std::string> set;
  const auto put_into = [&](OrderedJson& object, const std::string& key, const OrderedJson& value,
                            const std::string& path) {
    if (object.contains(key) && object[key] == value) return;
    object[key] = value;
    set.push_back(path + key + " = " + (value.is_string() ? value.get<std::string>() : value.dump()));
  };
  const auto put = [&](const std::string& key, const OrderedJson& value) { put_into(config, key, value, ""); };
  for (const auto& [key, value] : plan.flags) {
    if (nested) put_into(config["text_config"], key, value, "text_config.");
    if (!nested || key == "tie_word_embeddings") put(key, value);  // there transformers 5 reads it
  }
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!dtype || !config.contains(key)) continue;
    put(key, *dtype == DType::f32 ? "float32" : *dtype == DType::f16 ? "float16" : "bfloat16");
  }
  if (set.empty()) return set;  // the file stays as it is, byte for byte
  const std::string text = config.dump(2) + "\n";
  NewFile file(folder / "config.json");
  file.write_at(0, std::as_bytes(std::span(text)));
  file.publish();
  return set;
}

TENON_INLINE void check_merged(const std::filesystem::path& folder, const ReadMergeModel& read) {
  ModelFiles files;
  files.tensors = std::make_shared<const Checkpoint>(Checkpoint::open(folder));
  const auto config = std::make_shared<ConfigFile>(folder);
  config->set_has_head(files.tensors->find("lm_head.weight") != nullptr);
  files.config = config;
  try {
    const MergeModel model = read(*files.config);
    TensorSource(files, model.prefix).check(model.spec, model.config.tied_head);
  } catch (const Error& error) {
    throw Error(Error::Kind::internal, "merged checkpoint", error.what());
  }
}

}  // namespace tenon::detail
