// tenon merge: writes a model with an adapter folded in.
#include "tenon/model/merge.h"

#include <optional>

#include "commands.h"
#include "output.h"
#include "progress.h"
#include "tenon/device/thread_pool.h"

namespace program {

int merge(const MergeCommand& command) {
  ModelOptions model;
  model.model = command.model;
  model.threads = command.threads;
  const auto folder = model_folder(model);
  say_which_model(model);
  tenon::MergeOptions options;
  if (!command.dtype.empty())
    options.dtype = command.dtype == "float32"    ? tenon::DType::f32
                    : command.dtype == "bfloat16" ? tenon::DType::bf16
                                                  : tenon::DType::f16;
  tenon::ThreadPool pool(thread_count(model));
  constexpr std::uint64_t kMegabyte = 1'000'000;
  std::optional<Progress> progress;  // made when the total is known
  const auto show = [&](std::uint64_t done, std::uint64_t total) {
    if (!progress) progress.emplace("MB", total / kMegabyte);
    progress->update(done / kMegabyte);
  };
  const auto report = tenon::merge_checkpoint(folder, command.adapter, command.out, pool, options, show);
  progress.reset();
  for (const auto& name : report.added) say("added: " + tenon::printable(name));
  for (const auto& field : report.config) say("config.json: " + field);
  for (const auto& name : report.left_out)
    say("left out: " + tenon::printable(name) + ", a copy that would differ from the embedding");
  if (!report.files_left_out.empty()) say("not copied: " + joined(report.files_left_out));
  Output output;
  output.write(formatted("merged: %d of %d tensors changed, %s bytes of tensors in %zu file%s\n", report.changed,
                         report.tensors, with_commas(report.bytes).c_str(), report.shards,
                         report.shards == 1 ? "" : "s"));
  output.flush();
  return 0;
}

}  // namespace program
