// A client's socket: what came on it, and the httplib::Stream that answers are written to. What httplib reads from it
// is no client's bytes, but the line that present() gives it.
#pragma once
#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "serve/http/http_limits.h"
#include "serve/http/http_state.h"

namespace serve {

using HttpClock = std::chrono::steady_clock;

class Connection final : public httplib::Stream {
 public:
  // Owns the socket, which must be non-blocking.
  Connection(int socket, const HttpLimits& limits, HttpState& state)
      : socket_(socket), limits_(limits), state_(state) {}
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // ---- requests

  enum class Fill { some, nothing, ended };
  Fill fill();                                                // never waits; some: appended to received()
  std::string& received() { return received_; }               // and not used yet
  void begin_request();                                       // its first byte is there
  HttpClock::time_point arrival() const { return arrival_; }  // of that byte

  // ---- answers

  void present(std::string head) { head_ = std::move(head), head_used_ = 0; }  // what httplib is to read
  // What is written from here on waits for the reader, and fails when that takes none for too long, or too long for
  // all. Else writing never waits: what the socket does not take is kept.
  void stream() { streaming_ = true; }
  bool has_rest() const { return !rest_.empty(); }
  std::size_t rest_size() const { return rest_.size() - rest_sent_; }
  // Sends of what was kept as much as the socket takes, or a good piece; whether there was progress.
  bool send_rest();
  int in_flight() const;                      // bytes that the socket took and the client's did not
  bool send_at_once(std::string_view bytes);  // all of them or none; else the connection is broken
  void cut() { broken_ = true; }
  bool gone() const;  // closed (half of it counts), reset or failed; or the server stops
  void close_after_answer() { closing_ = true; }
  bool closing() const { return closing_; }
  bool broken() const { return broken_; }  // a write failed
  int release();                           // the socket; the caller owns it now

  // ---- httplib::Stream

  bool is_readable() const override { return head_used_ < head_.size(); }
  bool is_writable() const override { return !gone(); }  // also while the client is slow
  ssize_t read(char* to, std::size_t size) override;
  ssize_t write(const char* from, std::size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  std::size_t send_some(std::string_view bytes);
  bool send_patiently(std::string_view bytes);
  void keep(std::string_view bytes);
  void forget_rest();
  bool wait_until_writable(HttpClock::time_point until) const;

  int socket_;
  const HttpLimits& limits_;
  HttpState& state_;
  HttpClock::time_point received_at_{}, arrival_{};
  std::string received_;
  std::string head_;
  std::size_t head_used_ = 0;
  std::string rest_;
  std::size_t rest_sent_ = 0;
  bool streaming_ = false, closing_ = false, broken_ = false;
};

}  // namespace serve
