// A client's socket with deadlines: the httplib::Stream that answers are written to. What httplib reads from it is no
// client's bytes, but the line that present() gives it.
#pragma once
#include <httplib.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

#include "server/http_limits.h"
#include "server/http_state.h"

namespace serve {

using HttpClock = std::chrono::steady_clock;

class Connection final : public httplib::Stream {
 public:
  // Owns the socket, which must be non-blocking. `accepted`: its first request may have waited since then.
  Connection(int socket, const HttpLimits& limits, HttpState& state, HttpClock::time_point accepted)
      : socket_(socket), limits_(limits), state_(state), received_at_(accepted) {}
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // ---- requests

  // Waits for a request's first byte. False: none came in time, or others need the thread.
  bool await_request(bool first);
  HttpClock::time_point arrival() const { return arrival_; }  // of that byte

  enum class Fill { some, ended, late, stopped };
  Fill fill(HttpClock::time_point deadline);     // some: appended to received()
  std::string& received() { return received_; }  // and not used yet

  // ---- answers

  void present(std::string head) { head_ = std::move(head), head_used_ = 0; }  // what httplib is to read
  bool send(std::string_view bytes);  // all of them; false: the client is gone, or took none for too long
  bool gone() const;                  // closed (half of it counts), reset or failed; or the server stops
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
  enum class Idle { request, over, wake };
  Idle wait_idle(bool sheddable, HttpClock::time_point until);
  enum class Io { ready, late, stopped };
  Io wait_io(short events, HttpClock::time_point deadline) const;

  int socket_;
  const HttpLimits& limits_;
  HttpState& state_;
  HttpClock::time_point received_at_, arrival_{};
  std::string received_;
  std::string head_;
  std::size_t head_used_ = 0;
  bool closing_ = false, broken_ = false;
};

}  // namespace serve
