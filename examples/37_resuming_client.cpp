// A client in C++ whose stream survives a cut. The client asks for ids with `resumable`. After a cut it asks the next
// server for the rest, after the last whole event. Copy the class: it needs cpp-httplib 0.11 and nlohmann/json alone.
//     37_resuming_client '{"prompt": "Once upon a time", "max_tokens": 200}' http://one:8080 http://two:8080
// The servers need one --resume-key-file, the same model and the same settings: docs/server.md.
#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using Json = nlohmann::json;

// Reads server-sent events from pieces that are cut anywhere.
class EventReader {
 public:
  // Calls take(id, data) for each whole event, until it returns false. Comments have no data.
  bool push(const char* piece, std::size_t size, const auto& take) {
    waiting_.append(piece, size);
    for (std::size_t end; (end = waiting_.find('\n')) != std::string::npos;) {
      std::string line = waiting_.substr(0, end);
      waiting_.erase(0, end + 1);
      if (line.ends_with('\r')) line.pop_back();
      if (line.starts_with("id: ")) id_ = line.substr(4);
      if (line.starts_with("data: ")) data_ += line.substr(6);
      if (!line.empty()) continue;
      const std::string id = std::exchange(id_, {}), data = std::exchange(data_, {});
      if (!data.empty() && !take(id, data)) return false;
    }
    return true;
  }

 private:
  std::string waiting_, id_, data_;
};

class ResumingStream {
 public:
  using Take = std::function<void(const std::string&)>;  // gets the text of each event; must not throw

  ResumingStream(std::vector<std::string> servers, Json body) : servers_(std::move(servers)), body_(std::move(body)) {
    body_["stream"] = body_["resumable"] = true;
    path_ = body_.contains("messages") ? "/v1/chat/completions" : "/v1/completions";
  }

  // Calls take() once for each event, whatever cuts the connection between them. std::runtime_error if all servers
  // refuse the stream, or if kTries further tries bring no new event.
  void read(const Take& take) {
    std::set<std::size_t> refused;  // positions of servers
    int failed = 0;
    for (std::size_t at = 0;;) {
      const Attempt attempt = connect(servers_[at], take);
      if (attempt.end == End::done) return;
      std::fprintf(stderr, "[%s: %s]\n", servers_[at].c_str(), attempt.why.c_str());
      if (attempt.has_new) failed = 0, refused.clear();
      predicts_ = !(attempt.end == End::refused && attempt.predicts);
      if (!predicts_) continue;  // the prediction may be the reason, so the same server is asked without it
      if (attempt.end == End::refused) refused.insert(at);
      if (attempt.end == End::cut) ++failed;
      if (attempt.end == End::final || failed > kTries || refused.size() == servers_.size())
        throw std::runtime_error("the stream cannot be continued: " + attempt.why);
      // The first try follows at once. The pauses after it double, from 50 ms to 5 s.
      const double pause = failed < 2 ? 0 : std::min(5.0, std::ldexp(0.05, failed - 2));
      if (attempt.end == End::cut) std::this_thread::sleep_for(Seconds(std::max(pause, attempt.pause)));
      do at = (at + 1) % servers_.size();
      while (refused.contains(at));
    }
  }

 private:
  enum class End { done, cut, refused, final };  // after `cut` any server may help, after `refused` another one may
  struct Attempt {
    End end = End::cut;
    std::string why = "the connection was cut";
    double pause = 0;  // seconds that the server asks the client to wait
    bool has_new = false, predicts = false;
  };
  using Seconds = std::chrono::duration<double>;
  static constexpr int kTries = 10;

  Attempt connect(const std::string& server, const Take& take) {
    Attempt attempt{.predicts = predicts_ && !received_.empty()};
    Json body = body_;  // the server verifies a prediction many tokens at a time
    if (attempt.predicts) body["prediction"] = {{"type", "content"}, {"content", received_}};
    httplib::Request request;
    request.method = "POST";
    request.path = path_;
    request.body = body.dump();
    request.headers = {{"Content-Type", "application/json"}};
    if (!last_id_.empty()) request.headers.emplace("Last-Event-ID", last_id_);
    int status = 0;
    request.response_handler = [&](const httplib::Response& response) {
      status = response.status;
      attempt.pause = std::clamp(std::atof(response.get_header_value("Retry-After").c_str()), 0.0, 60.0);
      if (status == 200) return true;
      attempt.end = std::set{408, 429, 500, 502, 503, 504}.contains(status) ? End::cut : End::refused;
      if (response.get_header_value("x-should-retry") == "false") attempt.end = End::final;
      attempt.why = std::to_string(status) + " ";
      return true;
    };
    EventReader reader;
    request.content_receiver = [&](const char* piece, std::size_t size, std::uint64_t, std::uint64_t) {
      if (status != 200) return attempt.why.append(piece, size).size() < 10000;
      return reader.push(piece, size, [&](auto& id, auto& data) { return take_event(id, data, take, attempt); });
    };
    httplib::Client client(server);
    client.set_connection_timeout(5);
    client.set_read_timeout(60);  // the server sends a comment each 15 s
    client.send(request);
    if (status == 0) attempt.why = "no answer";
    return attempt;
  }

  // Takes a whole event. False ends the connection.
  bool take_event(const std::string& id, const std::string& data, const Take& take, Attempt& attempt) {
    const Json json = data == "[DONE]" ? Json::object() : Json::parse(data, nullptr, false);
    if (id.empty() || !json.is_object()) {  // an error has no id, and is no part of the answer
      const Json code = json.is_object() ? json.value("/error/code"_json_pointer, Json("no ids")) : Json();
      const bool would_come_again = code == "timeout" || code == "engine_failed" || code == "no ids";
      attempt.end = would_come_again ? End::final : End::cut;
      attempt.why = data;
      return false;
    }
    std::string text;
    for (const auto path : {"/choices/0/text", "/choices/0/delta/content"}) {
      const Json part = json.value(Json::json_pointer(path), Json());
      if (part.is_string()) text = part;
    }
    take(text);
    received_ += text;
    last_id_ = id;
    attempt.has_new = true;
    if (data == "[DONE]") attempt.end = End::done;
    return true;
  }

  const std::vector<std::string> servers_;
  Json body_;
  std::string path_, last_id_, received_;
  bool predicts_ = true;
};

int main(int argc, char** argv) try {
  if (argc < 3) throw std::runtime_error("usage: 37_resuming_client BODY URL...");
  // [use]
  ResumingStream stream({argv + 2, argv + argc}, Json::parse(argv[1]));
  stream.read([](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  });
  // [/use]
  std::printf("\n");
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
