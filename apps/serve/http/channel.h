// A connection's bytes, plain or through TLS, over TCP or a Unix socket.
#pragma once
#include <sys/socket.h>

#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

namespace serve {

namespace asio = boost::asio;
using boost::system::error_code;

/// Used by the event thread, but for write_now(), which the thread that answers may call while no write is under way.
class HttpChannel {
 public:
  using Socket = asio::generic::stream_protocol::socket;
  using Done = std::function<void(error_code)>;
  using Read = std::function<void(error_code, std::string_view)>;  ///< bytes are valid during the call
  using Written = std::function<void(error_code, std::size_t)>;

  virtual ~HttpChannel() = default;
  virtual Socket& socket() = 0;
  virtual void handshake(Done done) = 0;
  virtual void read_some(Read read) = 0;
  virtual void write_some(std::string_view bytes, Written written) = 0;
  virtual std::size_t write_now(std::string_view bytes, error_code& error) = 0;  ///< never waits
  virtual void say_end(Done done) = 0;  ///< tells the client that nothing follows

  virtual void close() {
    error_code ignored;
    socket().close(ignored);
  }

  void end_sending() {
    error_code ignored;
    socket().shutdown(Socket::shutdown_send, ignored);
  }
};

class PlainChannel final : public HttpChannel {
 public:
  PlainChannel(Socket socket, std::array<char, 64 << 10>& scratch) : socket_(std::move(socket)), scratch_(scratch) {
    socket_.non_blocking(true);
  }
  Socket& socket() override { return socket_; }
  void handshake(Done done) override { done({}); }

  // An idle connection has no buffer: the event thread's is filled once there is something to read.
  void read_some(Read read) override {
    socket_.async_wait(Socket::wait_read, [this, read = std::move(read)](error_code error) mutable {
      std::size_t count = 0;
      if (!error) count = socket_.read_some(asio::buffer(scratch_), error);
      if (error == asio::error::would_block) return read_some(std::move(read));
      read(error, {scratch_.data(), count});
    });
  }
  void write_some(std::string_view bytes, Written written) override {
    socket_.async_write_some(asio::buffer(bytes), std::move(written));
  }
  std::size_t write_now(std::string_view bytes, error_code& error) override {
    const std::size_t count = socket_.write_some(asio::buffer(bytes), error);
    if (error == asio::error::would_block) error = {};
    return count;
  }
  void say_end(Done done) override {
    end_sending();
    done({});
  }

 private:
  Socket socket_;
  std::array<char, 64 << 10>& scratch_;
};

/// A handshake takes milliseconds of a core (an RSA key of 4,096 bits: 3). Its thread is that of `handshakes`, so that
/// the event thread serves others meanwhile.
class TlsChannel final : public HttpChannel {
 public:
  TlsChannel(Socket socket, std::shared_ptr<asio::ssl::context> context, asio::io_context& handshakes)
      : context_(std::move(context)), handshakes_(handshakes), stream_(std::move(socket), *context_) {}
  Socket& socket() override { return stream_.next_layer(); }

  // Asio runs each step of the operation on its handler's executor. `done` comes back to the event thread.
  void handshake(Done done) override {
    shakes_hands_ = true;
    auto back = [this, done = std::move(done)](error_code error) mutable {
      asio::post(stream_.get_executor(), [this, error, done = std::move(done)] {
        shakes_hands_ = false;
        done(error);
      });
    };
    stream_.async_handshake(asio::ssl::stream_base::server, asio::bind_executor(handshakes_, std::move(back)));
  }
  // Only the thread of the handshake may touch the socket. The end of both directions ends the handshake, and then the
  // last handler destroys the socket.
  void close() override {
    if (!shakes_hands_) return HttpChannel::close();
    ::shutdown(socket().native_handle(), SHUT_RDWR);
  }
  void read_some(Read read) override {
    stream_.async_read_some(asio::buffer(bytes_), [this, read = std::move(read)](error_code error, std::size_t count) {
      read(error, {bytes_.data(), count});
    });
  }
  void write_some(std::string_view bytes, Written written) override {
    stream_.async_write_some(asio::buffer(bytes), std::move(written));
  }
  std::size_t write_now(std::string_view, error_code&) override { return 0; }  // records are the event thread's
  void say_end(Done done) override {
    stream_.async_shutdown([this, done = std::move(done)](error_code error) {
      end_sending();
      done(error);
    });
  }

 private:
  std::shared_ptr<asio::ssl::context> context_;  // of the certificate at the time of the handshake
  asio::io_context& handshakes_;
  asio::ssl::stream<Socket> stream_;
  bool shakes_hands_ = false;
  std::array<char, 4 << 10> bytes_;
};

}  // namespace serve
