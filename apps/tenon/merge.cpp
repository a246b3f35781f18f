// tenon merge: writes a model with an adapter folded in.
#include "tenon/model/merge.h"

#include <functional>

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
  ByteProgress progress;
  const auto report = tenon::merge_checkpoint(folder, command.adapter, command.out, pool, options, std::ref(progress));
  progress.clear();
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
