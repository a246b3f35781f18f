// The engine is compiled once, in 29_compile_once/engine.cpp. This unit includes AnyEngine only, compiles in seconds,
// and is not recompiled when the engine's policies change. It uses a service, and then the engine step by step.
#include <tenon/engine/any_engine.h>
#include <tenon/engine/service.h>

#include "29_compile_once/engine.h"
#include "common/example.h"

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "12"}});
  const std::string folder = arguments.text("--model");
  const tenon::Request request{.prompt = example::kPrompt,
                               .options = {.max_new_tokens = arguments.number("--new"), .ignore_eos = true}};

  std::string streamed;
  {
    // [service]
    tenon::Service service{make_engine(folder)};
    for (const auto& token : service.submit(request)) streamed += token.text;
    // [/service]
  }

  // [steps]
  const auto engine = make_engine(folder);
  engine->submit(request);
  std::string stepped;
  while (!engine->idle()) {
    for (const auto& event : engine->step()) stepped += event.text;
  }
  // [/steps]

  std::printf("%s%s\n", example::kPrompt.c_str(), streamed.c_str());
  return example::verdict("the same text from the service and from the engine",
                          !streamed.empty() && streamed == stepped);
} catch (const std::exception& error) {
  return example::failed(error);
}
