// tenon convert: writes a model or an adapter of torch.save as safetensors.
#include "tenon/model/convert.h"

#include <functional>

#include "commands.h"
#include "output.h"
#include "progress.h"

namespace program {

int convert(const ConvertCommand& command) {
  ModelOptions model;
  model.model = command.model;
  const auto folder = model_folder(model);
  ByteProgress progress;
  const auto report = tenon::convert_checkpoint(folder, command.out, std::ref(progress));
  progress.clear();
  if (!report.files_left_out.empty()) say("not copied: " + joined(report.files_left_out));
  Output output;
  output.write(formatted("%s: %zu tensors, %s bytes, in %zu file%s\n", report.adapter ? "adapter" : "model",
                         report.tensors, with_commas(report.bytes).c_str(), report.shards,
                         report.shards == 1 ? "" : "s"));
  output.flush();
  return 0;
}

}  // namespace program
