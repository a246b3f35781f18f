// Mixtures of experts have the CPU's bits, in every format of chains, whatever the number of rows.
#define BOOST_TEST_MODULE tenon ops cuda mixture
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "../mixture_problem.h"
#include "problem.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

static_assert(MixesExperts<Cuda, BFloat16Dot::View> && TabulatesExperts<Cuda, GroupInt4::View> &&
                  !MixesExperts<Cuda, ZeroPointInt8Act8::View>,
              "experts are products of chains over columns");

using Formats = std::tuple<Float32, ZeroPointInt8, GroupInt4, NormalFloat4>;

namespace {

// The memory of a mixture's pairs on one side.
template <class M, class... Device>
struct Pairs {
  M x, out, both;
  ExpertMemory memory;

  template <class P>
  Pairs(const MixtureProblem<P>& p, int rows, Device&... device)
      : x(device..., Matrix(rows * p.chosen, p.hidden, p.hidden)),
        out(device..., Matrix(rows * p.chosen, p.hidden, p.hidden + 1)),
        both(device..., Matrix(rows * p.chosen, 2 * p.inner, 2 * p.inner)),
        memory{x.view(), out.view(), both.view(), {}, {}} {}
};

// A mixture on both sides.
template <class P>
class BothSides {
 public:
  using View = typename P::View;

  BothSides(Cpu& cpu, Cuda& cuda, const MixtureProblem<P>& p)
      : cpu_(cpu),
        cuda_(cuda),
        p_(p),
        x_(cuda, p.x),
        router_(cuda, p.router),
        router_bias_(cuda, p.router_bias),
        table_(table(cuda)) {}

  // Compares the first rows of x.
  bool have_the_same_bits(int rows) {
    const auto [here, there] = results(rows);
    return same_bits(there, here);
  }

  // The mixture of the first rows of x on the CPU, and on the GPU.
  std::pair<Matrix, Matrix> results(int rows) {
    Matrix y(rows, p_.hidden, p_.hidden + 5);
    for (int r = 0; r < rows; ++r)
      std::memcpy(y.row(r), p_.start.row(r), static_cast<std::size_t>(p_.hidden) * sizeof(float));
    const DeviceMatrix there(cuda_, y);
    Pairs<Matrix> pairs(p_, rows);
    Pairs<DeviceMatrix, Cuda> pairs_there(p_, rows, cuda_);
    mixture(cpu_, MixtureArgs<View>{p_.x.view(0, rows), p_.router.row(0), p_.router_bias.row(0), p_.parts, nullptr,
                                    p_.chosen, p_.kind, p_.gate, &pairs.memory, y.view()});
    mixture(cuda_, MixtureArgs<View>{x_.view(0, rows), router_.row(0), router_bias_.row(0), parts_, table_.data(),
                                     p_.chosen, p_.kind, p_.gate, &pairs_there.memory, there.view()});
    return {std::move(y), there.host()};
  }

 private:
  Cuda::Memory table(Cuda& cuda) {
    for (std::size_t e = 0; e < p_.parts.size(); ++e) {
      ups_.emplace_back(cuda, p_.packed_ups[e]);
      downs_.emplace_back(cuda, p_.packed_downs[e]);
      up_biases_.emplace_back(cuda, p_.up_biases[e]);
      down_biases_.emplace_back(cuda, p_.down_biases[e]);
      parts_.push_back({{ups_[e].view(), up_biases_[e].row(0)}, {downs_[e].view(), down_biases_[e].row(0)}});
    }
    return expert_table(cuda, std::span<const ExpertParts<View, const float*>>(parts_));
  }

  Cpu& cpu_;
  Cuda& cuda_;
  const MixtureProblem<P>& p_;
  DeviceMatrix x_, router_, router_bias_;
  std::vector<DevicePacked<P>> ups_, downs_;
  std::vector<DeviceMatrix> up_biases_, down_biases_;
  typename MixtureProblem<P>::Parts parts_;
  Cuda::Memory table_;
};

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(mixtures, P, Formats) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  auto problems = mixture_problems<P>();
  problems.emplace_back(64, 48, 70, 8, RouterKind::normalised);  // more experts than lanes of a warp
  for (const auto& p : problems) {
    BothSides<P> sides(cpu, cuda, p);
    for (const int rows : {1, 2, 9, 33, kMostRows}) {
      BOOST_TEST_REQUIRE(sides.have_the_same_bits(rows),
                         p.experts << " experts, " << p.chosen << " chosen, " << rows << " rows");
    }
  }
}

// Equal logits go to the lower id. A row whose logits are not finite has a sum of NaN, as on the CPU.
BOOST_AUTO_TEST_CASE(ties_and_infinite_logits) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  MixtureProblem<Float32> p(48, 40, 8, 3, RouterKind::normalised);
  std::fill(p.router.row(0), p.router.row(0) + std::ptrdiff_t{8} * p.router.stride, 0.0f);
  for (int e = 0; e < 8; ++e) p.router_bias.row(0)[e] = e % 2 == 0 ? 0.5f : 0.25f;
  BOOST_TEST(BothSides<Float32>(cpu, cuda, p).have_the_same_bits(20));
  p.x.row(3)[7] = std::numeric_limits<float>::infinity();  // times 0: no logit is a number
  Matrix y = p.start;
  Pairs<Matrix> pairs(p, kMostRows);
  mixture(cpu, MixtureArgs<Float32::View>{p.x.view(), p.router.row(0), p.router_bias.row(0), p.parts, nullptr, p.chosen,
                                          p.kind, p.gate, &pairs.memory, y.view()});
  BOOST_TEST(std::isnan(y.row(3)[0]));
  auto [here, there] = BothSides<Float32>(cpu, cuda, p).results(20);
  for (Matrix* side : {&here, &there}) {  // a NaN has other bits on a GPU
    float* const row = side->row(3);
    BOOST_TEST(std::all_of(row, row + p.hidden, [](float value) { return std::isnan(value); }));
    std::fill(row, row + p.hidden, 0.0f);
  }
  BOOST_TEST(same_bits(there, here));
}
