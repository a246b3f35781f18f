// Writes a model's checkpoint with an adapter folded in, so that the plain model answers as the adapted one.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/checkpoint/config.h"
#include "tenon/checkpoint/peft.h"
#include "tenon/checkpoint/sharded_writer.h"
#include "tenon/io/json_fwd.h"
#include "tenon/io/staged_folder.h"
#include "tenon/model/adapter_sites.h"
#include "tenon/model/any_family.h"
#include "tenon/model/files.h"
#include "tenon/model/merged_tensor.h"
#include "tenon/model/quantize.h"

namespace tenon {

/// Options of merge_checkpoint.
struct MergeOptions {
  /// Type of all tensors of floats: f32, f16 or bf16. Empty: each keeps the type that it has in the base.
  std::optional<DType> dtype = {};
  std::uint64_t shard_bytes = ShardedWriter::kShardBytes;  ///< most bytes of tensors in one file
};

/// The result of merge_checkpoint.
struct MergeReport {
  int tensors = 0, changed = 0;             ///< in the new checkpoint, and those of them that the adapter changed
  std::uint64_t bytes = 0;                  ///< of all tensors
  std::size_t shards = 0;                   ///< number of files of tensors
  std::vector<std::string> added;           ///< tensors that the base lacks
  std::vector<std::string> config;          ///< fields of config.json that were set: "tie_word_embeddings = false"
  std::vector<std::string> left_out;        ///< tensors of the base that would no longer fit
  std::vector<std::string> files_left_out;  ///< as QuantizeReport::files_left_out
};

namespace detail {

// The base as its family sees it.
struct MergeModel {
  ModelConfig config;
  DecoderSpec spec;
  std::string_view prefix;  // Family::name_prefix
};
using ReadMergeModel = std::function<MergeModel(const ConfigFile&)>;

// The contents of the new checkpoint. It points into the base and the adapter.
struct MergePlan {
  std::vector<MergedTensor> tensors;
  std::vector<std::pair<std::string, bool>> flags;  // fields of config.json to set
  std::vector<std::string> added, left_out;
};

// Plans all tensors. `read` reads a changed config.json. Errors: unsupported if the adapter cannot be folded in, or if
// the base is quantised and no type is given.
MergePlan plan_merge(const ModelFiles& files, const MergeModel& model, const AdapterSites& sites,
                     const PeftAdapter& adapter, const MergeOptions& options, const ReadMergeModel& read);

// Sets fields of <folder>/config.json: those of the plan and, if given, the type of the weights. Returns what was set.
std::vector<std::string> set_config_fields(const std::filesystem::path& folder, const MergePlan& plan,
                                           std::optional<DType> dtype);

// Opens the new checkpoint and checks that its model finds all tensors. Error internal if it does not.
void check_merged(const std::filesystem::path& folder, const ReadMergeModel& read);

template <class Pool>
void write_merge_plan(Pool& pool, const MergePlan& plan, const Checkpoint& base, const PeftAdapter& adapter,
                      ShardedWriter& writer, const QuantizeProgress& progress) {
  std::uint64_t total = 0, done = 0;
  const auto bytes_of = [](const MergedTensor& t) { return t.source ? t.source->end - t.source->begin : 0; };
  for (const MergedTensor& each : plan.tensors) total += bytes_of(each);
  for (const MergedTensor& each : plan.tensors) {
    write_merged(pool, each, base, adapter, writer);
    done += bytes_of(each);
    if (progress) progress(done, total);
  }
}

}  // namespace detail

/// Writes the model `source`, a folder or a GGUF file, to the new folder `target`, with the PEFT adapter in folder
/// `adapter_folder` folded in. Values are computed in double from the values in the files, and rounded once. The
/// tokenizer and other small files are copied as by quantize_checkpoint. Memory: one factor pair, and some MiB of rows.
///
/// A tied head is untied where embedding and head come to differ: config.json gets tie_word_embeddings = false. A bias
/// that the base lacks is added if the family has a field for it (attention_bias, mlp_bias).
///
/// Errors: those of load_checkpoint and PeftAdapter::open. Error unsupported for an activated LoRA, for codes of
/// quantize_checkpoint, and for a value beyond the type; if options.dtype is empty, also for other quantised weights.
/// Error invalid_request if the target exists. After an error there is no target.
template <class Pool>
MergeReport merge_checkpoint(std::span<const Family> families, const std::filesystem::path& source,
                             const std::filesystem::path& adapter_folder, const std::filesystem::path& target,
                             Pool& pool, const MergeOptions& options = {}, const QuantizeProgress& progress = {}) {
  const detail::ReadMergeModel read = [families](const ConfigFile& file) -> detail::MergeModel {
    const Family& family = find_family(families, file.model_type());
    ModelConfig config = family.configure(file);
    DecoderSpec spec = tensors_of(family, config);
    return {std::move(config), std::move(spec), family.name_prefix};
  };
  const ModelFiles files = load_checkpoint(source);  // includes the tokenizer: an invalid one is not copied either
  detail::refuse_codes(files);
  const detail::MergeModel model = read(*files.config);
  check_layer_count(files, model.config);
  TensorSource(files, model.prefix).check(model.spec, model.config.tied_head);
  const AdapterSites sites = adapter_sites(model.spec, model.prefix, files);
  const PeftAdapter adapter = PeftAdapter::open(adapter_folder, sites.modules(), sites.base);
  const detail::MergePlan plan = detail::plan_merge(files, model, sites, adapter, options, read);

  MergeReport report;
  report.files_left_out = detail::files_left_out(source, *files.tensors);
  StagedFolder folder(target);
  const auto modules = detail::new_module_folders(source, folder.path());
  std::vector<NewFile> small = detail::copy_model_files(source, folder.path());
  NewFile::publish_all(small);
  report.config = detail::set_config_fields(folder.path(), plan, options.dtype);
  std::vector<TensorPlan> plans;
  for (const detail::MergedTensor& each : plan.tensors) {
    plans.push_back(each.plan);
    report.changed += each.changed() ? 1 : 0;
  }
  ShardedWriter writer(folder.path(), plans, {{"format", "pt"}}, options.shard_bytes);
  detail::write_merge_plan(pool, plan, *files.tensors, adapter, writer, progress);
  std::vector<NewFile> weights = writer.take_files();
  files.tensors->verify_unchanged();
  adapter.tensors().verify_unchanged();
  NewFile::publish_all(weights);
  detail::check_merged(folder.path(), read);
  folder.publish();

  report.tensors = static_cast<int>(plans.size());
  report.bytes = writer.data_bytes();
  report.shards = writer.shards();
  report.added = plan.added;
  report.left_out = plan.left_out;
  return report;
}

/// The same, for the built-in families.
template <class Pool>
MergeReport merge_checkpoint(const std::filesystem::path& source, const std::filesystem::path& adapter_folder,
                             const std::filesystem::path& target, Pool& pool, const MergeOptions& options = {},
                             const QuantizeProgress& progress = {}) {
  return merge_checkpoint(BuiltInModels{}, source, adapter_folder, target, pool, options, progress);
}

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/model/merge-inl.h"
#endif
