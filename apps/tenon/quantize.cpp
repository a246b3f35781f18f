// tenon quantize: writes a model in another weight format.
#include "tenon/model/quantize.h"

#include <functional>

#include "commands.h"
#include "output.h"
#include "progress.h"
#include "tenon/device/thread_pool.h"
#include "tenon/model/gguf_export.h"

namespace program {

int quantize(const QuantizeCommand& command) {
  const std::string format = command.weights + (command.group == 32 ? "" : "_group" + std::to_string(command.group));
  ModelOptions model;
  model.model = command.model;
  model.threads = command.threads;
  const auto folder = model_folder(model);
  say_which_model(model);
  tenon::ThreadPool pool(thread_count(model));
  ByteProgress progress;
  const auto report = command.gguf ? tenon::export_gguf(folder, command.out, format, pool, std::ref(progress))
                                   : tenon::quantize_checkpoint(folder, command.out, format, pool, std::ref(progress));
  progress.clear();
  for (const auto& name : report.left_out)
    say("left out: " + tenon::printable(name) + ", which the model has no use for");
  if (!report.files_left_out.empty()) say("not copied: " + joined(report.files_left_out));
  Output output;
  output.write(formatted("%s: %s bytes of tensors, which were %s\n", format.c_str(),
                         with_commas(report.bytes_after).c_str(), with_commas(report.bytes_before).c_str()));
  output.flush();
  return 0;
}

}  // namespace program
