// Adapters and rows for the tests of low_rank, on any device.
#pragma once
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "helpers.h"
#include "tenon/adapter/any_lora.h"
#include "tenon/core/float16.h"
#include "tenon/core/low_rank.h"

namespace tenon::test::low_rank_problem {

inline constexpr int kRanks[] = {1, 2, 3, 4, 7, 8, 12, 16, 17, 64};
inline constexpr AnyLoRA::Kind kKinds[] = {AnyLoRA::Kind::segmented, AnyLoRA::Kind::gathered, AnyLoRA::Kind::looped};
inline constexpr FactorType kTypes[] = {FactorType::float32, FactorType::float16, FactorType::bfloat16};

inline std::size_t size(int n) { return static_cast<std::size_t>(n); }

// Elements of a factor, the last one before a protected page.
struct Factor {
  GuardedFloats memory;
  std::span<const std::byte> bytes;

  Factor(std::span<const float> values, FactorType type) {
    const std::size_t count = values.size() * (type == FactorType::float32 ? 4 : 2), floats = (count + 3) / 4;
    memory = GuardedFloats(floats);
    std::byte* to = reinterpret_cast<std::byte*>(memory.data()) + (floats * 4 - count);
    bytes = {to, count};
    for (const float value : values) {
      const float16 half(value);
      const bfloat16 upper(value);
      if (type == FactorType::float32)
        to = write(to, value);
      else
        to = type == FactorType::float16 ? write(to, half) : write(to, upper);
    }
  }

  template <class E>
  static std::byte* write(std::byte* to, E element) {
    std::memcpy(to, &element, sizeof(E));
    return to + sizeof(E);
  }
};

inline float rounded(float x, FactorType type) {
  if (type == FactorType::float16) return static_cast<float>(float16(x));
  return type == FactorType::bfloat16 ? static_cast<float>(bfloat16(x)) : x;
}

// Updates of layer 1 and one site, and their factors.
struct TestAdapter {
  struct Plain {
    std::vector<float> a;  // [rank, inputs]
    std::vector<float> b;  // [outputs, rank]
    int rank, first_output, outputs;
    float scale;
  };
  std::vector<Plain> plain;
  std::deque<Factor> factors;  // a and b of each update
  std::vector<LowRank> updates;
  std::vector<int> begins;
  std::unique_ptr<AdapterSet> set = std::make_unique<AdapterSet>();
  int inputs;

  TestAdapter(int in, std::vector<Plain> all, FactorType type = FactorType::float32, Site site = Site::qkv)
      : TestAdapter(in, all, std::vector(all.size(), type), site) {}
  TestAdapter(int in, std::vector<Plain> all, const std::vector<FactorType>& types, Site site = Site::qkv)
      : plain(std::move(all)), begins(2 * kSites + 1, 0), inputs(in) {
    for (const Plain& p : plain) {
      const FactorType type = types[updates.size()];
      std::vector<float> blocks;
      for (int block = 0; block < p.outputs; block += kFactorBlock) {
        for (int i = 0; i < p.rank; ++i) {
          for (int o = block; o < std::min(block + kFactorBlock, p.outputs); ++o)
            blocks.push_back(p.b[size(o * p.rank + i)]);
        }
      }
      const void* a = factors.emplace_back(p.a, type).bytes.data();
      const void* b = factors.emplace_back(blocks, type).bytes.data();
      updates.push_back({a, b, type, p.rank, p.scale, p.first_output, p.outputs});
    }
    for (std::size_t i = size(kSites) + static_cast<std::size_t>(site) + 1; i < begins.size(); ++i) {
      begins[i] = static_cast<int>(updates.size());
    }
    *set = {{updates.data(), begins.data()}};
  }
};

inline TestAdapter::Plain random_update(int inputs, int first_output, int outputs, int rank, std::uint64_t seed,
                                        FactorType type = FactorType::float32, float scale = 0.75f) {
  Random random(seed);
  TestAdapter::Plain p{{}, {}, rank, first_output, outputs, scale};
  for (int i = 0; i < rank * inputs; ++i) p.a.push_back(rounded(random.uniform(), type));
  for (int i = 0; i < rank * outputs; ++i) p.b.push_back(rounded(random.uniform(), type));
  return p;
}

// One step: rows of x, each with a set or none.
struct Step {
  int in, out;
  Matrix x;
  std::vector<const AdapterSet*> sets;  // [rows]

  Step(int inputs, int outputs, int rows)
      : in(inputs), out(outputs), x(random_matrix(rows, inputs, 1, inputs + 3, 4.0f)), sets(size(rows)) {}
  int rows() const { return x.rows; }
};

struct Deltas {
  Matrix memory;
  std::vector<const float*> rows;

  explicit Deltas(const Step& s)
      : memory(s.rows(), s.out, s.out + 5), rows(size(s.rows()), reinterpret_cast<const float*>(8)) {}
  friend bool operator==(const Deltas& a, const Deltas& b) {
    for (std::size_t r = 0; r < a.rows.size(); ++r) {
      if ((a.rows[r] == nullptr) != (b.rows[r] == nullptr)) return false;
    }
    return same_bits(a.memory, b.memory);
  }
};

inline AdapterGroups arranged(const Step& s, AnyLoRA::Kind kind) {
  AdapterGroups groups;
  AnyLoRA(kind).arrange(s.sets, groups);
  return groups;
}

// Rows of all adapters and of none, mixed, except the last ten, which belong to the first adapter.
inline void mix(Step& s, const std::vector<TestAdapter>& adapters, std::uint64_t seed) {
  Random random(seed);
  for (int r = 0; r < s.rows(); ++r) {
    const int which = r + 10 < s.rows() ? random.below(static_cast<int>(adapters.size()) + 1) : 0;
    s.sets[size(r)] = which < static_cast<int>(adapters.size()) ? adapters[size(which)].set.get() : nullptr;
  }
}

}  // namespace tenon::test::low_rank_problem
