// low_rank: a row's delta has the same bits in any grouping and batch, on any threads and instruction set.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "helpers.h"
#include "low_rank_problem.h"
#include "tenon/ops/cpu/low_rank.h"
#include "tenon/ops/reference.h"

BOOST_AUTO_TEST_SUITE(ops_low_rank)

using namespace tenon;
using namespace tenon::test;
using namespace tenon::test::low_rank_problem;

namespace {

constexpr int kInputs[] = {1, 10, 15, 16, 17, 64, 77, 768};
constexpr int kOuts[] = {1, 5, 16, 31, 48, 63, 64, 65, 131, 200, 256, 321};

template <class Op>
Deltas computed(const Step& s, const AdapterGroups& groups, Op&& op, Site site = Site::qkv) {
  Deltas d(s);
  op(LowRankArgs{
      .x = s.x.view(), .groups = &groups, .layer = 1, .site = site, .delta = d.memory.view(), .deltas = d.rows.data()});
  return d;
}
Deltas computed(Cpu& device, const Step& s, AnyLoRA::Kind kind, Site site = Site::qkv) {
  return computed(
      s, arranged(s, kind), [&](const LowRankArgs& args) { low_rank(device, args); }, site);
}

// As LowRankArgs defines it, in plain C++, one row after another.
Deltas defined(const Step& s, const std::vector<TestAdapter>& adapters) {
  Deltas d(s);
  std::vector<std::vector<float>> u;
  for (int r = 0; r < s.rows(); ++r) {
    d.rows[size(r)] = nullptr;
    for (const TestAdapter& adapter : adapters) {
      if (adapter.set.get() != s.sets[size(r)]) continue;
      d.rows[size(r)] = d.memory.row(r);
      std::fill_n(d.memory.row(r), s.out, 0.0f);
      for (const TestAdapter::Plain& p : adapter.plain) {
        for (int i = 0; i < p.rank; ++i) {
          float strips[16] = {};
          for (int k = 0; k < (s.in + 15) / 16 * 16; ++k) {
            const bool is_column = k < s.in;
            strips[k % 16] =
                std::fma(is_column ? p.a[size(i * s.in + k)] : 0, is_column ? s.x.row(r)[k] : 0, strips[k % 16]);
          }
          for (int width = 8; width > 0; width /= 2) {
            for (int j = 0; j < width; ++j) strips[j] += strips[j + width];
          }
          const float u_i = p.scale * strips[0];
          for (int o = 0; o < p.outputs; ++o) {
            float& sum = d.memory.row(r)[p.first_output + o];
            sum = std::fma(p.b[size(o * p.rank + i)], u_i, sum);
          }
        }
      }
    }
  }
  return d;
}

// Every arrangement on every device.
void check(const Step& s, const std::vector<TestAdapter>& adapters, const std::string& what, int threads = 4) {
  const Deltas truth = defined(s, adapters);
  for_each_cpu(
      [&](Cpu& device) {
        for (const auto kind : kKinds) {
          BOOST_TEST((computed(device, s, kind) == truth), name_of(device)
                                                               << ": " << what << ", kind " << static_cast<int>(kind));
        }
      },
      threads);
}

void take_magnitudes(const Matrix& m) {
  for (int r = 0; r < m.rows; ++r)
    std::transform(m.row(r), m.row(r) + m.cols, m.row(r), [](float x) { return std::fabs(x); });
}

std::string text(int in, int out, int rank) {
  return std::to_string(in) + " -> " + std::to_string(out) + " of rank " + std::to_string(rank);
}

}  // namespace

BOOST_AUTO_TEST_CASE(rows_are_the_same_in_any_arrangement_on_any_threads_and_instructions) {
  int number = 0;
  for (const int in : kInputs) {
    for (const int out : kOuts) {
      const int rank = kRanks[size(number) % std::size(kRanks)], other = kRanks[size(number + 3) % std::size(kRanks)];
      const FactorType type = kTypes[number % 3];
      if (++number % 3 == 0 && in == 768) continue;  // plain C++ is slow
      std::vector<TestAdapter> adapters;
      adapters.emplace_back(in, std::vector{random_update(in, 0, out, rank, 2, type)}, type);
      adapters.emplace_back(in, std::vector{random_update(in, out / 3, out - out / 3, other, 3)});
      adapters.emplace_back(in, std::vector{random_update(in, 0, (out + 1) / 2, 2, 4, type)}, type);
      Step s(in, out, number % 2 ? 23 : 39);
      mix(s, adapters, static_cast<std::uint64_t>(number));
      check(s, adapters, text(in, out, rank), number % 4 == 0 ? 4 : 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_of_every_size) {
  std::vector<TestAdapter> adapters;
  for (int i = 0; i < 2; ++i) adapters.emplace_back(77, std::vector{random_update(77, 0, 131, 7, size(i))});
  for (const int rows : kRows) {
    for (const int others : {0, 1}) {
      Step s(77, 131, rows + others);
      std::fill(s.sets.begin(), s.sets.end(), adapters[0].set.get());
      if (others) s.sets.front() = adapters[1].set.get();
      check(s, adapters, std::to_string(rows) + " rows", rows < 34 ? 4 : 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_rank_is_exact) {
  for (const FactorType type : kTypes) {
    for (const int rank : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 64, 200}) {
      std::vector<TestAdapter> adapters;
      adapters.emplace_back(33, std::vector{random_update(33, 0, 200, rank, 5, type)}, type);
      Step s(33, 200, 6);
      for (int r = 1; r < 6; ++r) s.sets[size(r)] = adapters[0].set.get();
      check(s, adapters, text(33, 200, rank), 3);
    }
  }
}

// 16-bit factors equal the float32 that they widen to.
BOOST_AUTO_TEST_CASE(halves_equal_their_float32_twins) {
  for (const FactorType type : {FactorType::float16, FactorType::bfloat16}) {
    for (const int in : {17, 64}) {
      auto update = random_update(in, 0, 200, 12, 6, type);
      // float16 extras: subnormals, the largest number, signed zeros.
      for (int k = 0; k < in; ++k)
        update.a[size(k)] = rounded(k % 3 ? 0x1p-20f * static_cast<float>(k) : k % 2 ? -0.0f : 65504.0f, type);
      std::vector<TestAdapter> halves, floats;
      halves.emplace_back(in, std::vector{update}, type);
      floats.emplace_back(in, std::vector{update});
      Step s(in, 200, 21), twin(in, 200, 21);
      std::fill(s.sets.begin(), s.sets.end(), halves[0].set.get());
      std::fill(twin.sets.begin(), twin.sets.end(), floats[0].set.get());
      for_each_cpu(
          [&](Cpu& device) {
            for (const auto kind : kKinds) BOOST_TEST((computed(device, s, kind) == computed(device, twin, kind)));
          },
          2);
    }
  }
}

// q, k and v of one matrix with gaps between them, in any order, with ranks of their own.
BOOST_AUTO_TEST_CASE(several_updates_of_one_matrix) {
  for (const int n : {5, 64, 100, 128}) {
    std::vector<TestAdapter> adapters;
    adapters.emplace_back(33, std::vector{random_update(33, 3, n, 4, 7), random_update(33, n + 5, n, 17, 8),
                                          random_update(33, 2 * n + 6, n, 1, 9)});
    adapters.emplace_back(33, std::vector{random_update(33, 2 * n, n, 4, 10), random_update(33, 0, n, 16, 11),
                                          random_update(33, n, n, 3, 12)});
    adapters.emplace_back(33, std::vector{random_update(33, n, n, 8, 13)});
    Step s(33, 3 * n + 9, 29);
    mix(s, adapters, 14);
    check(s, adapters, "three updates of " + std::to_string(n));
    Step one(33, 3 * n + 9, 1);
    one.sets[0] = adapters[0].set.get();
    check(one, adapters, "three updates of " + std::to_string(n) + ", one row");
  }
}

// Like compositions of adapters from different files: in order, wherever one type ends and another begins.
BOOST_AUTO_TEST_CASE(several_updates_have_types_of_their_own) {
  constexpr auto f32 = FactorType::float32, f16 = FactorType::float16, bf16 = FactorType::bfloat16;
  const auto update = [](int first, int outputs, int rank, std::uint64_t seed, FactorType type) {
    return random_update(33, first, outputs, rank, seed, type);
  };
  std::vector<TestAdapter> adapters;
  adapters.emplace_back(33,
                        std::vector{update(0, 200, 5, 1, f16), update(0, 200, 4, 2, f32), update(70, 60, 9, 3, f16)},
                        std::vector{f16, f32, f16});
  adapters.emplace_back(33, std::vector{update(64, 64, 16, 4, bf16), update(0, 64, 3, 5, f32)}, std::vector{bf16, f32});
  adapters.emplace_back(33, std::vector{update(0, 200, 16, 6, f32)});
  for (const int rows : {1, 3, 29}) {
    Step s(33, 200, rows);
    for (int r = 0; r < rows; ++r) s.sets[size(r)] = adapters[size(r % 3)].set.get();
    check(s, adapters, "types of their own, " + std::to_string(rows) + " rows", 3);
  }
}

BOOST_AUTO_TEST_CASE(a_composition_equals_one_update_of_all_ranks) {
  for (const int out : {31, 64, 300}) {
    const auto first = random_update(77, 0, out, 5, 15), second = random_update(77, 0, out, 16, 16);
    auto whole = first;
    whole.rank = 21;
    whole.a.insert(whole.a.end(), second.a.begin(), second.a.end());
    whole.b.clear();
    for (int o = 0; o < out; ++o) {
      whole.b.insert(whole.b.end(), first.b.begin() + o * 5, first.b.begin() + o * 5 + 5);
      whole.b.insert(whole.b.end(), second.b.begin() + o * 16, second.b.begin() + o * 16 + 16);
    }
    std::vector<TestAdapter> adapters;
    adapters.emplace_back(77, std::vector{first, second});
    adapters.emplace_back(77, std::vector{whole});
    // Outputs of the second update, some of which the first has begun.
    adapters.emplace_back(
        77, std::vector{random_update(77, 0, out / 2, 3, 17), random_update(77, out / 3, out - out / 3, 4, 18)});
    Step s(77, out, 13), joined(77, out, 13), partly(77, out, 13);
    std::fill(s.sets.begin(), s.sets.end(), adapters[0].set.get());
    std::fill(joined.sets.begin(), joined.sets.end(), adapters[1].set.get());
    std::fill(partly.sets.begin(), partly.sets.end(), adapters[2].set.get());
    check(s, adapters, "two updates");
    check(partly, adapters, "two updates that overlap");
    BOOST_TEST((defined(s, adapters) == defined(joined, adapters)));
    for_each_cpu([&](Cpu& device) {
      BOOST_TEST((computed(device, s, AnyLoRA::Kind::segmented) == computed(device, joined, AnyLoRA::Kind::segmented)));
    });
  }
}

BOOST_AUTO_TEST_CASE(a_row_alone_equals_the_row_among_others) {
  std::vector<TestAdapter> adapters;
  for (int i = 0; i < 5; ++i) {
    adapters.emplace_back(64, std::vector{random_update(64, 0, 131, kRanks[2 * i + 1], 20 + size(i), kTypes[i % 3])},
                          kTypes[i % 3]);
  }
  Step s(64, 131, 65);
  mix(s, adapters, 21);
  for_each_cpu(
      [&](Cpu& device) {
        for (const auto kind : kKinds) {
          const Deltas all = computed(device, s, kind);
          for (int r = 0; r < s.rows(); ++r) {
            Step one(64, 131, 1);
            std::memcpy(one.x.row(0), s.x.row(r), 64 * sizeof(float));
            one.sets[0] = s.sets[size(r)];
            const Deltas alone = computed(device, one, kind);
            BOOST_REQUIRE(same_bits(alone.memory.row(0), all.memory.row(r), 131));
            BOOST_REQUIRE((alone.rows[0] == nullptr) == (all.rows[size(r)] == nullptr));
          }
        }
      },
      3);
}

BOOST_AUTO_TEST_CASE(rows_without_an_update_are_left_as_they_are) {
  std::vector<TestAdapter> adapters;
  adapters.emplace_back(16, std::vector{random_update(16, 0, 64, 4, 22)});
  adapters.emplace_back(16, std::vector{random_update(16, 0, 64, 4, 23)}, FactorType::float32, Site::mlp_up);
  Step s(16, 64, 9), none(16, 64, 9);
  for (int r = 0; r < 9; ++r) s.sets[size(r)] = r % 3 == 2 ? nullptr : adapters[size(r % 3)].set.get();
  const Deltas untouched(none);
  for_each_cpu([&](Cpu& device) {
    for (const auto kind : kKinds) {
      const Deltas got = computed(device, s, kind), other = computed(device, s, kind, Site::mlp_up);
      for (int r = 0; r < 9; ++r) {
        BOOST_TEST((got.rows[size(r)] == (r % 3 == 0 ? got.memory.row(r) : nullptr)));
        BOOST_TEST((other.rows[size(r)] == (r % 3 == 1 ? other.memory.row(r) : nullptr)));
        if (r % 3 != 0) BOOST_TEST(same_bits(got.memory.row(r), untouched.memory.row(r), 64));
        if (r % 3 != 1) BOOST_TEST(same_bits(other.memory.row(r), untouched.memory.row(r), 64));
      }
      BOOST_TEST(gaps_untouched(got.memory));
      for (const Site site : {Site::attn_out, Site::mlp_down}) {
        const Deltas nothing = computed(device, s, kind, site), plain = computed(device, none, kind);
        BOOST_TEST((same_bits(nothing.memory, untouched.memory) && same_bits(plain.memory, untouched.memory)));
        BOOST_TEST(std::count(nothing.rows.begin(), nothing.rows.end(), nullptr) == 9);
        BOOST_TEST(std::count(plain.rows.begin(), plain.rows.end(), nullptr) == 9);
      }
      const Deltas empty = computed(device, Step(16, 64, 0), kind);
      BOOST_TEST(empty.rows.empty());
    }
  });
}

BOOST_AUTO_TEST_CASE(an_adapter_of_nan_and_infinity_changes_no_other_row) {
  const auto update = [](int i, float what) {
    auto u = random_update(64, 0, 131, 8, 30 + size(i));
    if (what != 0) u.a[3] = u.b[7] = u.b[500] = what;
    return u;
  };
  std::vector<TestAdapter> sound, hostile;
  for (int i = 0; i < 3; ++i) {
    sound.emplace_back(64, std::vector{update(i, 0)});
    hostile.emplace_back(64, std::vector{update(i, i == 1   ? kGarbage
                                                   : i == 2 ? std::numeric_limits<float>::infinity()
                                                            : 0)});
  }
  Step s(64, 131, 40), other(64, 131, 40);
  for (int r = 0; r < 40; ++r) {
    s.sets[size(r)] = sound[size(r % 3)].set.get();
    other.sets[size(r)] = hostile[size(r % 3)].set.get();
  }
  for (int r = 3; r < 40; r += 6) other.x.row(r)[5] = kGarbage;  // nor does a row that is alone
  for_each_cpu([&](Cpu& device) {
    for (const auto kind : kKinds) {
      const Deltas expected = computed(device, s, kind), got = computed(device, other, kind);
      for (int r = 0; r < 40; r += 6) BOOST_TEST(same_bits(expected.memory.row(r), got.memory.row(r), 131));
      for (int r = 1; r < 40; ++r) {
        if (r % 6 != 0) BOOST_TEST(!std::isfinite(got.memory.row(r)[r % 3 == 0 ? 9 : 0]));
      }
    }
  });
}

// Tolerance, with u = 2^-24 (Higham, 2002, section 3.1). u[i] has a chain in sixteen strips, a tree of four and the
// scale: (inputs / 16 + 6) u sum |scale a x|. delta is off by that times |b| and a chain over all ranks.
BOOST_AUTO_TEST_CASE(agrees_with_the_reference) {
  for (const FactorType type : kTypes) {
    for (const int in : {1, 17, 77, 768}) {
      std::vector<TestAdapter> adapters, magnitudes;
      adapters.emplace_back(
          in, std::vector{random_update(in, 3, 131, 12, 40, type), random_update(in, 70, 40, 3, 41, type)}, type);
      auto positive = adapters[0].plain;
      for (auto& p : positive) {
        for (float& value : p.a) value = std::fabs(value);
        for (float& value : p.b) value = std::fabs(value);
      }
      magnitudes.emplace_back(in, positive, type);
      Step s(in, 140, 19), magnitude(in, 140, 19);
      std::fill(s.sets.begin() + 1, s.sets.end(), adapters[0].set.get());
      std::fill(magnitude.sets.begin() + 1, magnitude.sets.end(), magnitudes[0].set.get());
      take_magnitudes(magnitude.x);
      const auto refer = [](const LowRankArgs& args) { reference::low_rank(args); };
      const auto groups = arranged(s, AnyLoRA::Kind::segmented);
      const Deltas expected = computed(s, groups, refer);
      const Deltas bound = computed(magnitude, arranged(magnitude, AnyLoRA::Kind::gathered), refer);
      const auto within = [&](auto&& op) {
        const Deltas got = computed(s, groups, op);
        for (int r = 0; r < 19; ++r) {
          if ((got.rows[size(r)] == nullptr) != (expected.rows[size(r)] == nullptr)) return false;
          for (int o = 0; got.rows[size(r)] && o < 140; ++o) {
            const double tolerance = 0x1p-24 * (in / 16 + 7 + 15 + 1) * 1.01 * bound.memory.row(r)[o];
            if (!(std::fabs(double{got.memory.row(r)[o]} - expected.memory.row(r)[o]) <= tolerance)) return false;
          }
        }
        return true;
      };
      for (const Isa isa : isas()) {
        Cpu device({.threads = 2, .isa = isa});
        BOOST_TEST(within([&](const LowRankArgs& args) { low_rank(device, args); }), to_string(isa)
                                                                                         << ", " << in << " inputs");
        // The inverse tests: a missing last rank, second update or scale is detected.
        const auto without = [&](auto&& change) {
          return within([&](const LowRankArgs& args) {
            std::vector<LowRank> updates = adapters[0].updates;
            std::vector<int> begins = adapters[0].begins;
            change(updates, begins);
            const AdapterSet set{{updates.data(), begins.data()}};
            AdapterGroups changed = *args.groups;
            for (AdapterGroup& group : changed.groups) group.adapters = &set;
            LowRankArgs other = args;
            other.groups = &changed;
            low_rank(device, other);
          });
        };
        BOOST_TEST(without([](auto&, auto&) {}));
        BOOST_TEST(!without([](auto& updates, auto&) { updates[1].rank -= 1; }));
        BOOST_TEST(!without([](auto&, auto& begins) {
          for (int& i : begins) i = std::min(i, 1);
        }));
        BOOST_TEST(!without([](auto& updates, auto&) { updates[0].scale *= 1.001f; }));
      }
    }
  }
}

// The inverse test: the same comparison catches sums that follow the grouping.
BOOST_AUTO_TEST_CASE(a_sum_that_follows_the_group_is_caught) {
  std::vector<TestAdapter> adapters;
  adapters.emplace_back(77, std::vector{random_update(77, 0, 31, 8, 50)});
  Step s(77, 31, 20);
  std::fill(s.sets.begin(), s.sets.end(), adapters[0].set.get());
  const Deltas truth = defined(s, adapters);
  const auto caught = [&](auto&& u_of) {
    Deltas d(s);
    for (int r = 0; r < s.rows(); ++r) {
      d.rows[size(r)] = d.memory.row(r);
      for (int o = 0; o < 31; ++o) {
        float sum = 0;
        for (int i = 0; i < 8; ++i) sum = std::fma(adapters[0].plain[0].b[size(o * 8 + i)], u_of(r, i), sum);
        d.memory.row(r)[o] = sum;
      }
    }
    return !(d == truth);
  };
  const auto dot = [&](int r, int i, int strips) {
    std::vector<float> sums(16, 0.0f);
    for (int k = 0; k < 77; ++k)
      sums[size(k % strips)] =
          std::fma(adapters[0].plain[0].a[size(i * 77 + k)], s.x.row(r)[k], sums[size(k % strips)]);
    for (int width = 8; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) sums[size(j)] += sums[size(j + width)];
    }
    return 0.75f * sums[0];
  };
  BOOST_TEST(!caught([&](int r, int i) { return dot(r, i, 16); }));  // the definition itself passes
  BOOST_TEST(caught([&](int r, int i) { return dot(r, i, 8); }));
  BOOST_TEST(caught([&](int r, int i) { return dot(r, i, r < 16 ? 16 : 1); }));
}

BOOST_AUTO_TEST_SUITE_END()
