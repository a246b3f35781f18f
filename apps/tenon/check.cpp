// tenon check: whether a model loads and runs.
#include <algorithm>
#include <utility>

#include "commands.h"
#include "output.h"
#include "tenon/core/error.h"

namespace program {

int generate_few(tenon::AnyEngine& engine, const std::vector<tenon::AdapterUse>& adapters) {
  const tenon::ModelConfig& config = engine.config();
  tenon::Request request{.input_ids = {config.bos.value_or(0)},
                         .adapters = adapters,
                         .lease = engine.lease(adapters),
                         .options = {.max_new_tokens = std::min(4, config.positions), .ignore_eos = true}};
  if (!config.language_head || request.lease.head) {
    request.options.max_new_tokens = 0;
    const bool classifies = !config.labels.empty() || request.lease.head;
    request.options.pooling = classifies ? tenon::Pooling::classify : tenon::Pooling::last;
  }
  engine.submit(std::move(request));
  engine.set_draining(true);
  int generated = 0;
  while (!engine.idle()) {
    for (const tenon::Event& event : step_or_wait(engine)) {
      if (event.kind == tenon::Event::Kind::token) ++generated;
      if (event.kind == tenon::Event::Kind::error)
        throw tenon::Error(tenon::Error::Kind::invalid_file, "", event.error);
    }
  }
  return generated;
}

int check(const CheckCommand& command) {
  const auto files = open_model(command.model);
  need_tokenizer(files, "check");
  ModelOptions options = with_stored_weights(command.model, files);
  options.adapter_root = command.adapter_root;
  const auto engine = make_engine(options, files);
  std::vector<tenon::AdapterUse> adapters;
  if (!command.adapter_root.empty()) adapters.push_back({command.adapter_id});
  const int generated = generate_few(*engine, adapters);
  const tenon::ModelConfig& config = engine->config();
  Output output;
  output.write(formatted("ok: %s of %d layers, %s bytes of weights, generated %d tokens\n", config.model_type.c_str(),
                         config.layers, with_commas(engine->weight_bytes()).c_str(), generated));
  output.flush();
  return 0;
}

}  // namespace program
