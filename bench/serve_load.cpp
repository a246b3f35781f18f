// Clients of tenon-serve for bench/serve: well-behaved, slow, and disconnecting ones. The program reads one case per
// line from standard input, and writes its results as one line of JSON.
//   {"case": "closed", "port": 8080, "clients": 8, "seconds": 5, ...}
#include <csignal>
#include <deque>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "serve_http.h"
#include "serve_work.h"

namespace {

using namespace bench;

std::uint64_t as_index(int i) { return static_cast<std::uint64_t>(i); }

// A request as the client sees it, recorded in a tally.
class Watched {
 public:
  explicit Watched(Tally& tally) : tally_(tally) {}

  void begin(Time now, int new_tokens, bool stream) {
    course_ = {.asked = now}, new_tokens_ = new_tokens, stream_ = stream;
  }
  // Records the events of a stream so far. Tokens that come together have no time between them.
  void events(Time now, int count) {
    while (stream_ && course_.tokens < count) {
      const Time before = course_.last;
      course_.token(now);
      tally_.token(before, now);
    }
  }
  // Records the end. Returns whether the answer is complete.
  bool end(Time now, HttpClient::End how, const HttpAnswer& answer) {
    if (how == HttpClient::End::whole && answer.status() == 429) return tally_.refused(now), false;
    if (how != HttpClient::End::whole || answer.status() != 200) return tally_.failed(now), false;
    if (stream_ && course_.tokens != new_tokens_) return tally_.failed(now), false;
    if (!stream_) {
      course_.first = course_.last = now;
      course_.tokens = new_tokens_;
      tally_.token({}, now, new_tokens_);
    }
    tally_.request(course_);
    return true;
  }

 private:
  Tally& tally_;
  Course course_;
  int new_tokens_ = 0;
  bool stream_ = true;
};

// A fixed number of clients, each of which sends a new request when it has its answer.
class ClosedClients {
 public:
  ClosedClients(Loop& loop, Tally& tally, const Json& ask)
      : loop_(loop), tally_(tally), work_(ask), stream_(ask.value("stream", true)), count_(ask.at("clients")) {
    for (int c = 0; c < count_; ++c) {
      Client& client = clients_.emplace_back(loop, ask.at("port"), tally);
      client.http.on_events = [this, &client] { client.watched.events(loop_.now(), client.http.answer().events()); };
      client.http.on_end = [this, &client, c](HttpClient::End how) {
        const bool good = client.watched.end(loop_.now(), how, client.http.answer());
        ended_ += good;
        // If the server is not there or refuses, the client retries after a short time.
        if (loop_.now() < tally_.end())
          loop_.at(loop_.now() + seconds(good ? 0 : 0.02), [this, &client, c] { next(client, c); });
      };
    }
  }
  void start() {
    for (int c = 0; c < count_; ++c) next(clients_[static_cast<std::size_t>(c)], c);
  }
  long ended() const { return ended_; }

 private:
  struct Client {
    Client(Loop& loop, int port, Tally& tally) : http(loop, port), watched(tally) {}
    HttpClient http;
    Watched watched;
    int sent = 0;  // requests
  };

  void next(Client& client, int c) {
    const Asked request = work_.request(as_index(client.sent++ * count_ + c));
    client.watched.begin(Clock::now(), request.new_tokens, stream_);
    client.http.ask(generate(request, stream_));
  }

  Loop& loop_;
  Tally& tally_;
  const Work work_;
  const bool stream_;
  const int count_;
  long ended_ = 0;
  std::deque<Client> clients_;
};

Tally tally_from(const Json& ask, Time start) {
  const Time begin = start + seconds(ask.value("warmup", 0.5));
  return Tally(ask, begin, begin + seconds(ask.at("seconds")));
}

// Waits until the server has no open request, at most `patience` seconds.
bool settles(int port, double patience) {
  for (const Time until = Clock::now() + seconds(patience); Clock::now() < until;) {
    if (metric(fetch(port, "/metrics"), "tenon_requests_open") == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

Json closed(const Json& ask) {
  Loop loop;
  Tally tally = tally_from(ask, Clock::now());
  {
    ClosedClients clients(loop, tally, ask);
    clients.start();
    loop.run([&] { return loop.now() >= tally.end(); });
  }  // destroys the clients, which closes their connections
  if (ask.value("settle", true)) settles(ask.at("port"), 10);
  return tally.row();
}

// The open loop: requests arrive at random times, however many are open.
Json open(const Json& ask) {
  struct Client {
    Client(Loop& loop, int port, Tally& tally) : http(loop, port), watched(tally) {}
    HttpClient http;
    Watched watched;
  };
  Loop loop;
  Tally tally = tally_from(ask, Clock::now());
  const Work work(ask);
  const double rate = ask.at("rate");
  const auto seed = ask.value("seed", std::uint64_t{1});
  std::deque<Client> all;
  std::vector<Client*> idle;
  std::size_t busy = 0, most = 0;
  const auto client = [&]() -> Client& {
    if (!idle.empty()) {
      Client& last = *idle.back();  // most recently used, so its connection is probably still open
      idle.pop_back();
      return last;
    }
    Client& made = all.emplace_back(loop, ask.at("port"), tally);
    made.http.on_events = [&] { made.watched.events(loop.now(), made.http.answer().events()); };
    made.http.on_end = [&](HttpClient::End how) {
      made.watched.end(loop.now(), how, made.http.answer());
      idle.push_back(&made);
      --busy;
    };
    return made;
  };
  Time due = Clock::now();
  std::uint64_t i = 0;
  bool over = false;
  std::function<void()> arrive;
  const auto plan = [&] {
    due += seconds(-std::log(1 - draw_unit(seed, i)) / rate);
    over = due >= tally.end();
    if (!over) loop.at(due, arrive);
  };
  arrive = [&] {
    const Asked asked = work.request(i++);
    Client& each = client();
    most = std::max(most, ++busy);
    each.watched.begin(due, asked.new_tokens, true);
    each.http.ask(generate(asked, true));
    plan();
  };
  plan();
  loop.run([&] { return (over && busy == 0) || loop.now() > tally.end() + std::chrono::seconds(30); });
  Json row = tally.row();
  row["most_open"] = most;
  return row;
}

// The whole body of each answer, one request after another.
std::vector<std::string> answered_alone(Loop& loop, int port, const std::vector<std::string>& requests) {
  std::vector<std::string> bodies;
  HttpClient one(loop, port);
  one.on_end = [&](HttpClient::End) {
    bodies.push_back(one.answer().last_line());
    if (bodies.size() < requests.size()) one.ask(requests[bodies.size()]);
  };
  one.ask(requests[0]);
  loop.run([&] { return bodies.size() == requests.size(); });
  return bodies;
}

// Requests the server's health every 20 ms.
class HealthProbe {
 public:
  HealthProbe(Loop& loop, int port) : loop_(loop), http_(loop, port) {
    http_.on_end = [this](HttpClient::End how) {
      ms_.push_back(1e3 * seconds_between(asked_, loop_.now()));
      failed_ += how != HttpClient::End::whole || http_.answer().status() != 200;
      if (!stopped_) loop_.at(std::max(loop_.now(), asked_ + std::chrono::milliseconds(20)), [this] { ask(); });
    };
    ask();
  }
  HealthProbe(const HealthProbe&) = delete;
  void stop() {
    stopped_ = true;
    if (http_.busy()) loop_.run([&] { return !http_.busy(); });
  }
  Json ms() { return quantiles(ms_); }  // time from request to answer
  int failed() const { return failed_; }

 private:
  void ask() {
    asked_ = Clock::now();
    http_.ask(get("/health"));
  }
  Loop& loop_;
  HttpClient http_;
  Time asked_{};
  std::vector<double> ms_;
  int failed_ = 0;
  bool stopped_ = false;
};

// Overload: `factor` (default 10) clients for each place of the server send one request each, all at once. This repeats
// for `waves` waves. Meanwhile a probe measures how fast the server reports its health.
Json overload(const Json& ask) {
  constexpr int kTexts = 16;
  const int port = ask.at("port"), count = static_cast<int>(ask.at("places")) * ask.value("factor", 10),
            waves = ask.at("waves");
  const Work work(ask);
  Loop loop;
  std::vector<std::string> requests;
  for (int i = 0; i < kTexts; ++i) requests.push_back(generate(work.request(as_index(i)), false));
  const std::vector<std::string> alone = answered_alone(loop, port, requests);

  std::vector<double> refusals, accepted;
  long right = 0, wrong = 0, cut = 0, others = 0;
  HealthProbe health(loop, port);
  for (int wave = 0; wave < waves; ++wave) {
    struct Client {
      Client(Loop& on, int to) : http(on, to) {}
      HttpClient http;
      Time asked{};
    };
    std::deque<Client> clients;
    int open = count;
    for (int c = 0; c < count; ++c) {
      Client& client = clients.emplace_back(loop, port);
      client.http.on_end = [&, c](HttpClient::End how) {
        const HttpAnswer& answer = client.http.answer();
        const double ms = 1e3 * seconds_between(client.asked, loop.now());
        if (how != HttpClient::End::whole)
          ++cut;
        else if (answer.status() == 429)
          refusals.push_back(ms);
        else if (answer.status() != 200)
          ++others;
        else {
          accepted.push_back(ms);
          ++(answer.last_line() == alone[as_index(c % kTexts)] ? right : wrong);
        }
        --open;
      };
      client.asked = Clock::now();
      client.http.ask(requests[as_index(c % kTexts)]);
      loop.turn({});  // so that no request waits until all clients have connected
    }
    loop.run([&] { return open == 0; });
  }
  health.stop();
  return {{"connections", count},
          {"health_ms", health.ms()},
          {"health_failed", health.failed()},
          {"refusal_ms", quantiles(refusals)},
          {"accepted_ms", quantiles(accepted)},
          {"right", right},
          {"wrong", wrong},
          {"cut", cut},
          {"other_status", others}};
}

Json facts(int port) {
  const std::string metrics = fetch(port, "/metrics");
  Json out;
  for (const char* name : {"tenon_requests_open", "tenon_cache_used_tokens", "process_threads", "process_open_fds",
                           "process_resident_memory_bytes"}) {
    out[name] = metric(metrics, name);
  }
  return out;
}

// Clients that disconnect at any point: before a byte, in the head, in the body, before the first token, after some
// tokens; with and without a reset, closing one direction or both.
class Leavers {
 public:
  Leavers(Loop& loop, const Json& ask) : loop_(loop), work_(ask), port_(ask.at("port")), count_(ask.at("clients")) {}

  void run(int at_once) {
    while (open_ < at_once && begun_ < count_) begin();
    loop_.run([&] {
      gone_.clear();
      while (open_ < at_once && begun_ < count_) begin();
      return open_ == 0;
    });
  }

 private:
  void begin() {
    ++open_;
    const int i = begun_++;
    auto client = std::make_shared<HttpClient>(loop_, port_);
    const Asked asked = work_.request(as_index(i));
    const auto random = [&](int salt, int below) {
      return static_cast<int>(draw(77, as_index(i), as_index(salt)) % as_index(below));
    };
    const int kind = random(0, 6), tokens = 1 + random(1, asked.new_tokens);
    const bool stream = kind != 5;
    const std::string request = generate(asked, stream);
    const int head = static_cast<int>(request.find("\r\n\r\n"));
    if (kind == 0) client->bytes_at_most = 0;
    if (kind == 1) client->bytes_at_most = as_index(1 + random(2, head));
    if (kind == 2) client->bytes_at_most = as_index(head + 4 + random(2, static_cast<int>(request.size()) - head - 4));
    const auto leave = [this, i, client = client.get(), reset = random(3, 2) == 0, half = random(4, 4) == 0] {
      if (!clients_.contains(i)) return;
      if (half && client->busy()) {
        client->close_half();  // closes the rest shortly after
        loop_.at(loop_.now() + std::chrono::milliseconds(10), [this, i, client] {
          if (clients_.contains(i)) gone(i, *client, false);
        });
        return;
      }
      gone(i, *client, reset);
    };
    if (kind == 4)
      client->on_events = [client = client.get(), tokens, leave] {
        if (client->answer().events() >= tokens) leave();
      };
    client->on_end = [this, i, client = client.get()](HttpClient::End) {
      if (clients_.contains(i)) gone(i, *client, false);
    };
    if (kind != 4) loop_.at(Clock::now() + std::chrono::microseconds(random(5, 30'000)), leave);
    clients_[i] = client;
    client->ask(request);
  }
  void gone(int i, HttpClient& client, bool reset) {
    client.leave(reset);
    gone_.push_back(std::move(clients_[i]));  // destroyed after its handler has returned
    clients_.erase(i);
    --open_;
  }

  Loop& loop_;
  const Work work_;
  const int port_, count_;
  int begun_ = 0, open_ = 0;
  std::map<int, std::shared_ptr<HttpClient>> clients_;
  std::vector<std::shared_ptr<HttpClient>> gone_;
};

Json disconnect(const Json& ask) {
  Json before_ask = ask;
  before_ask.update({{"clients", 32}, {"seconds", 1.0}});
  closed(before_ask);                                    // warm-up: the server allocates what it allocates once
  std::this_thread::sleep_for(std::chrono::seconds(3));  // the server closes the connections that the warm-up left
  const Json before = facts(ask.at("port"));
  Loop loop;
  Leavers(loop, ask).run(ask.value("at_once", 32));
  Json after;
  const Time left = Clock::now(), until = left + std::chrono::seconds(15);
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    after = facts(ask.at("port"));
  } while (Clock::now() < until &&
           (after["tenon_requests_open"] != 0 || after["process_open_fds"] > before["process_open_fds"] ||
            after["tenon_cache_used_tokens"] > before["tenon_cache_used_tokens"]));
  return {{"before", before}, {"after", after}, {"settled_s", seconds_between(left, Clock::now())}};
}

// Clients that send one byte per second, and clients that never read their answer, together with well-behaved clients.
Json slow(const Json& ask) {
  const int port = ask.at("port"), senders = ask.value("senders", 200), deaf = ask.value("deaf", 50);
  const Work work(ask);
  Json alone = closed(ask);
  Loop loop;
  std::deque<HttpClient> others;
  long reconnected = 0, dropped = 0;
  const Time start = Clock::now();
  Json beside_ask = ask;
  beside_ask["warmup"] = ask.value("settle_s", 4.0);
  Tally tally = tally_from(beside_ask, start);
  for (int i = 0; i < senders; ++i) {
    HttpClient& client = others.emplace_back(loop, port);
    const std::string request = generate(work.request(as_index(i)), true);
    client.bytes_at_most = 1;
    client.on_end = [&, request](HttpClient::End) {
      ++reconnected;
      loop.at(loop.now() + std::chrono::milliseconds(10), [&, request] {
        client.bytes_at_most = 1;
        client.ask(request);
      });
    };
    loop.at(start + seconds(draw_unit(5, as_index(i))), [&, request] { client.ask(request); });
  }
  const std::function<void()> tick = [&] {
    for (int i = 0; i < senders; ++i) others[as_index(i)].send_more(1);
    loop.at(loop.now() + std::chrono::seconds(1), tick);
  };
  loop.at(start + std::chrono::seconds(2), tick);
  for (int i = 0; i < deaf; ++i) {
    HttpClient& client = others.emplace_back(loop, port);
    client.reads = false;
    client.tiny_buffers = true;
    // Few tokens, so little work for the engine, but many bytes: alternatives to each token.
    const std::string request = post("/generate_stream", {{"inputs", work.request(as_index(senders + i)).prompt},
                                                          {"parameters",
                                                           {{"max_new_tokens", ask.value("deaf_tokens", 64)},
                                                            {"ignore_eos_token", true},
                                                            {"return_k_alternatives", 20}}}});
    client.on_end = [&, request](HttpClient::End) {
      ++dropped;
      loop.at(loop.now() + std::chrono::milliseconds(10), [&, request] { client.ask(request); });
    };
    loop.at(start + seconds(draw_unit(6, as_index(i))), [&, request] { client.ask(request); });
  }
  {
    ClosedClients good(loop, tally, ask);
    loop.at(start + std::chrono::seconds(1), [&] { good.start(); });
    loop.run([&] { return loop.now() >= tally.end(); });
  }
  Json health = facts(port);
  return {
      {"alone", alone}, {"beside", tally.row()}, {"senders_cut", reconnected}, {"deaf_cut", dropped}, {"then", health}};
}

// Many small requests. Reports the server's memory after some of them and after all.
Json requests(const Json& ask) {
  const int port = ask.at("port"), clients = ask.at("clients");
  const long all = ask.at("requests");
  const Work work(ask);
  Loop loop;
  long begun = 0, ended = 0, failed = 0;
  std::deque<HttpClient> each;
  long until = 0;
  const auto run_to = [&](long count) {
    until = count;
    for (HttpClient& client : each) {
      if (begun < until) client.ask(generate(work.request(as_index(static_cast<int>(begun++))), false));
    }
    loop.run([&] { return ended == until; });
    settles(port, 5);
    return metric(fetch(port, "/metrics"), "process_resident_memory_bytes");
  };
  for (int c = 0; c < clients; ++c) {
    HttpClient& client = each.emplace_back(loop, port);
    client.on_end = [&](HttpClient::End how) {
      ++ended;
      failed += how != HttpClient::End::whole || client.answer().status() != 200;
      if (begun < until) client.ask(generate(work.request(as_index(static_cast<int>(begun++))), false));
    };
  }
  Json resident = Json::array();
  const Time start = Clock::now();
  for (long count = 1000; count < all; count *= 10) resident.push_back({{"requests", count}, {"bytes", run_to(count)}});
  resident.push_back({{"requests", all}, {"bytes", run_to(all)}});
  return {{"resident", resident},
          {"failed", failed},
          {"req_s", static_cast<double>(all) / seconds_between(start, Clock::now())}};
}

Json answer(const Json& ask) {
  using Case = Json (*)(const Json&);
  constexpr std::pair<const char*, Case> cases[] = {{"closed", closed},         {"open", open}, {"overload", overload},
                                                    {"disconnect", disconnect}, {"slow", slow}, {"requests", requests}};
  const std::string kind = ask.at("case");
  for (const auto& [name, work] : cases) {
    if (kind == name) return work(ask);
  }
  throw std::runtime_error("no such case: " + kind);
}

}  // namespace

int main() try {
  std::signal(SIGPIPE, SIG_IGN);
  std::cout << R"({"ready": true})" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    Json ask = Json::parse(line);
    const double cpu = cpu_seconds();
    const Json result = answer(ask);
    ask.update(result);
    ask.erase("port");
    ask["source"] = "http", ask["cpu_s"] = cpu_seconds() - cpu;
    std::cout << ask.dump() << std::endl;
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
