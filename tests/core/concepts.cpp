// Concepts refuse what the engine could not use: each type lacks one thing of a policy.
#include "tenon/core/concepts.h"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/device/cpu.h"

BOOST_AUTO_TEST_SUITE(core_concepts)

using namespace tenon;

namespace {

class Base : public Cpu {};
struct PutsInts : Base {
  const int* put(std::span<const int> values) { return values.data(); }
};
struct FetchesInts : Base {
  const int* fetch(const int* from, std::size_t) { return from; }
};
struct FillsByPointer : Base {
  struct Write {
    void operator()(std::span<std::byte>) const {}
  };
  void fill(std::span<std::byte> to, Write write) { write(to); }
};
struct Fixed : Base {
  struct Memory : Cpu::Memory {
    explicit Memory(std::size_t bytes) : Cpu::Memory(bytes) {}
  };
  Memory allocate(std::size_t bytes) { return Memory(bytes); }
};
struct Unmoved : Base {
  struct Memory : Cpu::Memory {
    Memory() = default;
    explicit Memory(std::size_t bytes) : Cpu::Memory(bytes) {}
    Memory(Memory&&) = delete;
  };
  Memory allocate(std::size_t bytes) { return Memory(bytes); }
};
struct WithoutBytes : Base {
  struct Memory {
    std::byte* data() const { return nullptr; }
    std::span<const std::byte> contents(std::size_t) const { return {}; }
  };
  Memory allocate(std::size_t) { return {}; }
};
struct Numbered : Base {
  std::uint64_t architecture() const { return 1; }
};

struct Adapters {
  static constexpr bool adds_at_runtime = true;
  void arrange(std::span<const AdapterSet* const>, AdapterGroups&) const {}
};
struct AdaptersOfValue : Adapters {
  explicit AdaptersOfValue(int) {}
};

struct Byte {
  std::uint8_t bits;
  static Byte encode(float) { return {0}; }
  float decode() const { return 0; }
};
struct ByteOfValue {
  std::uint8_t bits;
  explicit ByteOfValue(int) : bits(0) {}
  static ByteOfValue encode(float) { return ByteOfValue(0); }
  float decode() const { return 0; }
};

struct Tag {
  static constexpr bool materialises_scores = false;
};
struct Scores : Tag {
  float score(int, int, int, float s) const { return s; }
};
struct Inherits : Scores {};
struct Static : Tag {
  static float score(int, int, int, float s) noexcept { return s; }
};
struct ConvertsPositions : Tag {  // to float
  bool mask(float, float) const { return true; }
};
struct ConvertsScores : Tag {  // to double
  float score(int, int, int, double s) const { return static_cast<float>(s); }
};
struct ConvertsTiles : Scores {  // to a span of any length
  void scores(int, int, int, std::span<float>) const {}
};
struct ScoresTwice : Scores {  // one of two fits
  using Scores::score;
  float score(float s) const { return s; }
};
struct Overloaded : Tag {
  float score(int, float s) const { return s; }
  float score(float s) const { return s; }
};
struct Template : Tag {
  template <class T>
  bool mask(T) const {
    return true;
  }
};
class Private : public Tag {
  [[maybe_unused]] bool mask(int, int) const { return true; }
};
struct TilesAlone : Tag {
  void scores(int, int, int, std::span<float, 16>) const {}
};
template <std::size_t n>
struct Values : Tag {
  int value = 0;
  std::array<float, n> values() const { return {}; }
};

}  // namespace

BOOST_AUTO_TEST_CASE(devices_have_what_the_engine_calls) {
  BOOST_TEST((DevicePolicy<Cpu> && DevicePolicy<Base>));
  BOOST_TEST(!DevicePolicy<PutsInts>);
  BOOST_TEST(!DevicePolicy<FetchesInts>);
  BOOST_TEST(!DevicePolicy<FillsByPointer>);
  BOOST_TEST(!DevicePolicy<Fixed>);
  BOOST_TEST(!DevicePolicy<Unmoved>);
  BOOST_TEST(!DevicePolicy<WithoutBytes>);
  BOOST_TEST((NamesArchitecture<Numbered> && !NamesArchitecture<Cpu>));
}

BOOST_AUTO_TEST_CASE(what_is_made_from_nothing_has_a_default_constructor) {
  BOOST_TEST((AdapterPolicy<Adapters> && !AdapterPolicy<AdaptersOfValue>));
  BOOST_TEST((OwnKvElement<Byte> && !OwnKvElement<ByteOfValue>));
}

BOOST_AUTO_TEST_CASE(a_member_with_the_name_of_a_hook_is_that_hook) {
  BOOST_TEST((AttentionPolicy<Tag> && AttentionVariant<Scores> && AttentionVariant<Inherits>));
  BOOST_TEST(AttentionVariant<ScoresTwice>);
  BOOST_TEST(!AttentionPolicy<Overloaded>);
  BOOST_TEST(!AttentionPolicy<Template>);
  BOOST_TEST(!AttentionPolicy<Private>);
  BOOST_TEST(!AttentionPolicy<TilesAlone>);
  BOOST_TEST(AttentionVariant<Static>);
  BOOST_TEST(!AttentionPolicy<ConvertsPositions>);
  BOOST_TEST(!AttentionPolicy<ConvertsScores>);
  BOOST_TEST(!AttentionPolicy<ConvertsTiles>);
}

BOOST_AUTO_TEST_CASE(values_are_not_empty) {
  BOOST_TEST((AttentionPolicy<Values<1>> && CarriesValues<Values<1>>));
  BOOST_TEST((!AttentionPolicy<Values<0>> && !CarriesValues<Values<0>>));
}

BOOST_AUTO_TEST_SUITE_END()
