// The CPU obeys the laws of devices. Devices that break three of them are caught.
#include "tenon/testing/device_laws.h"

#include <boost/test/unit_test.hpp>
#include <cstring>

#include "obeys.h"
#include "tenon/device/cpu.h"

BOOST_AUTO_TEST_SUITE(testing_device_laws)

using namespace tenon;
using test::breaks;
using test::obeys;
using testing::device_laws;

namespace {

// Has memory of its own for what steps put, as a device beside the host would.
class Apart : public Cpu {
 public:
  Apart() : Cpu({.threads = 2}) {}
  void begin_step() { put_.clear(); }
  template <class T>
  const T* put(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    put_.emplace_back(bytes.begin(), bytes.end());
    return reinterpret_cast<const T*>(put_.back().data());
  }

 private:
  std::vector<std::vector<std::byte>> put_;
};

class OneBuffer : public Apart {  // which every put begins anew
 public:
  template <class T>
  const T* put(std::span<const T> values) {
    buffer_.resize(std::max(buffer_.size(), values.size_bytes()));
    if (!values.empty()) std::memcpy(buffer_.data(), values.data(), values.size_bytes());
    return reinterpret_cast<const T*>(buffer_.data());
  }

 private:
  std::vector<std::byte> buffer_ = std::vector<std::byte>(1 << 20);
};

class Wraps : public Apart {  // starts again at the front of its buffer when that is full
 public:
  template <class T>
  const T* put(std::span<const T> values) {
    if (at_ + values.size_bytes() > buffer_.size()) at_ = 0;
    if (!values.empty()) std::memcpy(buffer_.data() + at_, values.data(), values.size_bytes());
    return reinterpret_cast<const T*>(buffer_.data() + std::exchange(at_, at_ + values.size_bytes()));
  }

 private:
  std::vector<std::byte> buffer_ = std::vector<std::byte>(1 << 20);
  std::size_t at_ = 0;
};

class Dirty : public Apart {
 public:
  Memory allocate(std::size_t bytes) {
    Memory memory(bytes);
    std::memset(memory.data(), 1, bytes);
    return memory;
  }
};

class FillsHalf : public Apart {
 public:
  template <class Body>
  void fill(std::span<std::byte> to, Body&& body) {
    std::vector<std::byte> host(to.size());
    body(std::span<std::byte>(host));
    std::copy_n(host.begin(), to.size() / 2, to.begin());
  }
};

static_assert(DevicePolicy<Wraps> && DevicePolicy<Dirty> && DevicePolicy<FillsHalf>);

}  // namespace

BOOST_AUTO_TEST_CASE(our_device_obeys) {
  Cpu one({.threads = 1}), three({.threads = 3});
  obeys(device_laws<Cpu>(one));
  obeys(device_laws<Cpu>(three));
  Apart apart;
  obeys(device_laws(apart));
}

BOOST_AUTO_TEST_CASE(wrong_devices_are_caught) {
  OneBuffer one;
  BOOST_TEST(breaks(device_laws(one), "what a step puts stays"));
  Wraps wraps;
  BOOST_TEST(breaks(device_laws(wraps), "what a step puts stays"));
  Dirty dirty;
  BOOST_TEST(breaks(device_laws(dirty), "memory begins as zeros"));
  FillsHalf half;
  BOOST_TEST(breaks(device_laws(half), "keeps what is filled in"));
}

BOOST_AUTO_TEST_SUITE_END()
