// A service in your own program: four threads submit at the same time, and each streams its answer. One cancels, and
// one has a time limit.
#include <tenon/tenon.h>

#include <algorithm>
#include <thread>

#include "common/example.h"

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--new", "12"}, {"--milliseconds", "40"}});
  const int tokens = arguments.number("--new");
  const auto time = std::chrono::milliseconds(arguments.number("--milliseconds"));

  // [service]
  using Engine = tenon::Engine<tenon::Gpt2>;
  // The service runs the engine in its own thread; any thread may submit.
  tenon::Service<Engine> service(tenon::ServiceOptions{.max_waiting = 8},
                                 tenon::load_checkpoint(arguments.text("--model")));
  // [/service]

  std::string says[4];
  const auto ask = [&](int client, const std::string& prompt, int new_tokens, tenon::SubmitOptions how, int enough) {
    const tenon::Options options{.max_new_tokens = new_tokens, .ignore_eos = true};
    // [client]
    auto stream = service.submit({.prompt = prompt, .options = options}, how);
    int seen = 0;
    std::string text;
    for (const auto& token : stream) {  // waits for each token; leaving the scope early would cancel, too
      text += token.text;
      if (++seen == enough) stream.cancel();
    }
    const bool whole = stream.reason() == tenon::FinishReason::length;
    // [/client]
    says[client] = std::string("  ") + tenon::to_string(stream.reason().value()) + ": " + prompt;
    says[client] += whole ? text : text.substr(0, 30) + " ...";
    std::replace(says[client].begin(), says[client].end(), '\n', ' ');
  };
  std::thread clients[] = {
      std::thread(ask, 0, "The quick brown fox jumped over the", tokens, tenon::SubmitOptions{}, 0),
      std::thread(ask, 1, "The rain in Spain falls", tokens, tenon::SubmitOptions{}, 0),
      std::thread(ask, 2, "Once upon a time", 900, tenon::SubmitOptions{}, 7),
      std::thread(ask, 3, "There was a king who", 900, tenon::SubmitOptions{.timeout = time}, 0)};
  for (auto& client : clients) client.join();
  service.drain();  // accepts no new requests and finishes the open ones

  for (const auto& line : says) std::printf("%s\n", line.c_str());
  const tenon::ServiceStats stats = service.stats();
  std::printf("\n%d accepted: %d finished, %d cancelled, %d at the deadline\n", static_cast<int>(stats.accepted),
              static_cast<int>(stats.finished), static_cast<int>(stats.cancelled), static_cast<int>(stats.expired));
  return example::verdict("each ended as it should",
                          stats.finished == 2 && stats.cancelled == 1 && stats.expired == 1 && stats.open == 0);
} catch (const std::exception& error) {
  return example::failed(error);
}
