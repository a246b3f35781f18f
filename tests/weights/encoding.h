// Helpers for the tests of weight formats: shapes and contents that divide nothing, matrices encoded whole and in
// blocks, and the error of the values that are read back.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "../core/random.h"
#include "tenon/core/concepts.h"
#include "tenon/core/error.h"
#include "tenon/weights/code.h"

namespace tenon::test {

inline constexpr std::array kOddRows = {1, 15, 16, 17, 33};
inline constexpr std::array kOddCols = {1, 2, 3, 7, 31, 32, 33, 63, 65, 100, 129};

enum class Content { uniform, bell, wild, positive, negative, constant, zeros, outlier };
inline constexpr std::array kContents = {Content::uniform,  Content::bell,     Content::wild,  Content::positive,
                                         Content::negative, Content::constant, Content::zeros, Content::outlier};

// A matrix, row-major.
struct Weights {
  Shape shape;
  std::vector<float> values;  // [rows, cols]

  float at(int row, int col) const { return values[index(row, col)]; }
  std::span<const float> row(int r) const { return rows(r, 1); }
  std::span<const float> rows(int first, int count) const {
    return std::span(values).subspan(index(first, 0),
                                     static_cast<std::size_t>(count) * static_cast<std::size_t>(shape.cols));
  }
  ValueRange range() const {
    ValueRange range;
    range.add(values);
    return range;
  }

 private:
  std::size_t index(int row, int col) const {
    return static_cast<std::size_t>(row) * static_cast<std::size_t>(shape.cols) + static_cast<std::size_t>(col);
  }
};

// Wild values have every magnitude below 2^top, including subnormals and zeros of both signs.
inline Weights random_weights(Shape shape, Content content, std::uint64_t seed, int top = 15) {
  Random random(seed);
  const auto bell = [&] { return (random.uniform() + random.uniform() + random.uniform() + random.uniform()) / 2; };
  Weights w{shape, std::vector<float>(static_cast<std::size_t>(shape.rows) * static_cast<std::size_t>(shape.cols))};
  const float constant = random.uniform();
  for (float& x : w.values) {
    switch (content) {
      case Content::uniform:
        x = random.uniform();
        break;
      case Content::bell:
        x = bell();
        break;
      case Content::wild:
        x = random.below(9) == 0 ? 0.0f * random.uniform()
                                 : std::ldexp(random.uniform(), top - random.below(top + 149));
        break;
      case Content::positive:
        x = std::fabs(random.uniform());
        break;
      case Content::negative:
        x = -std::fabs(random.uniform());
        break;
      case Content::constant:
        x = constant;
        break;
      case Content::zeros:
        x = 0;
        break;
      case Content::outlier:
        x = bell() * (random.below(50) == 0 ? 40.0f : 1.0f);
        break;
    }
  }
  return w;
}

// Calls body(weights) for every odd shape, with the contents in turn.
template <class Body>
void for_odd_weights(int top, Body&& body) {
  std::uint64_t seed = 0;
  for (const int rows : kOddRows) {
    for (const int cols : kOddCols) {
      for (int i = 0; i < 2; ++i)
        body(random_weights({rows, cols}, kContents[seed % kContents.size()], seed + 1, top)), ++seed;
    }
  }
}
// The same for random shapes.
template <class Body>
void for_random_weights(int top, Body&& body) {
  Random random(99);
  for (std::uint64_t i = 0; i < 160; ++i) {
    const Shape shape{1 + random.below(50), 1 + random.below(300)};
    body(random_weights(shape, kContents[i % kContents.size()], 1000 + i, top));
  }
}

// The packed matrix, encoded in blocks of `block` rows, the last block first.
template <class P>
std::vector<std::byte> encoded(const Weights& w, int block) {
  std::vector<std::byte> packed(P::bytes(w.shape), std::byte{0});
  for (int first = (w.shape.rows - 1) / block * block; first >= 0; first -= block) {
    const auto rows = w.rows(first, std::min(block, w.shape.rows - first));
    if constexpr (EncodesWithRange<P>)
      P::encode(w.shape, first, rows, packed, w.range());
    else
      P::encode(w.shape, first, rows, packed);
  }
  return packed;
}
template <class P>
std::vector<std::byte> encoded(const Weights& w) {
  return encoded<P>(w, w.shape.rows);
}
template <class P>
CodeBlock coded(const Weights& w) {
  CodeBlock block;
  P::Code::encode(w.shape.cols, w.values, P::Code::per_tensor ? w.range() : ValueRange{}, block);
  return block;
}

inline std::string name_of(const Weights& w) {
  return std::to_string(w.shape.rows) + " x " + std::to_string(w.shape.cols);
}
inline bool same_bits(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

// Blocks give the bytes of the whole, and the view reads the values of the codes: equal(at, value, codes) for every
// weight.
template <class P, class Equal>
void check_packing(int top, Equal&& equal) {
  const auto check = [&](const Weights& w) {
    const auto whole = encoded<P>(w);
    for (const int block : {16, 32})
      BOOST_TEST_REQUIRE((encoded<P>(w, block) == whole), name_of(w) << " in blocks of " << block);
    const CodeBlock codes = coded<P>(w);
    const auto view = P::view(w.shape, whole);
    BOOST_TEST_REQUIRE((view.panels().rows == w.shape.rows && view.panels().cols == w.shape.cols));
    for (int r = 0; r < w.shape.rows; ++r) {
      for (int c = 0; c < w.shape.cols; ++c) {
        BOOST_TEST_REQUIRE(equal(view.at(r, c), P::Code::value(codes, r, c), codes),
                           name_of(w) << ", row " << r << ", column " << c << ": " << view.at(r, c) << " is not "
                                      << P::Code::value(codes, r, c));
      }
    }
  };
  for_odd_weights(top, check);
  for_random_weights(top, check);
}
template <class P>
void check_packing(int top) {
  check_packing<P>(top, [](float at, float value, const CodeBlock&) { return same_bits(at, value); });
}

// The maximum of |read(row, column) - weight| / bound(row, weight). With a bound of 0 the quotient is 0 or infinity.
template <class Read, class Bound>
double worst_error(const Weights& w, Read&& read, Bound&& bound) {
  double worst = 0;
  for (int r = 0; r < w.shape.rows; ++r) {
    for (int c = 0; c < w.shape.cols; ++c) {
      const double weight = w.at(r, c), error = std::fabs(static_cast<double>(read(r, c)) - weight),
                   most = bound(w.row(r), weight);
      if (!(error <= 0)) worst = std::max(worst, error / most);
    }
  }
  return worst;
}
// The same for a format, over every shape and content.
template <class P, class Bound>
double worst_error(int top, Bound&& bound) {
  double worst = 0;
  const auto look = [&](const Weights& w) {
    const auto packed = encoded<P>(w);
    const auto view = P::view(w.shape, packed);
    worst = std::max(worst, worst_error(
                                w, [&](int r, int c) { return view.at(r, c); }, bound));
  };
  for_odd_weights(top, look);
  for_random_weights(top, look);
  return worst;
}

// The error of encoding a row; "accepted" if there is none.
template <class P>
std::string refusal_of(const std::vector<float>& row) {
  try {
    encoded<P>({{1, static_cast<int>(row.size())}, row});
  } catch (const Error& error) {
    BOOST_TEST((error.kind() == Error::Kind::unsupported));
    return error.what();
  }
  return "accepted";
}
template <class P>
bool refuses(const std::vector<float>& row) {
  const std::string said = refusal_of<P>(row);
  return said.rfind("weights: ", 0) == 0 && said.find("use another format") != std::string::npos;
}

// The bytes of a section in cache lines, computed independently of whole_lines().
constexpr std::size_t lines(std::size_t bytes) { return bytes % 64 == 0 ? bytes : bytes + 64 - bytes % 64; }
constexpr std::size_t panels_of(int rows) { return static_cast<std::size_t>(rows) / 16 + (rows % 16 != 0); }

// Rows after the last one have zero codes, so that kernels compute finite values for them.
template <class View>
bool padding_is_zero(const View& view) {
  const auto& panels = view.panels();
  const int padded = static_cast<int>(panels_of(panels.rows)) * 16;
  for (int r = panels.rows; r < padded; ++r) {
    for (int c = 0; c < panels.cols; ++c) {
      if (view.at(r, c) != 0) return false;
    }
  }
  return true;
}

}  // namespace tenon::test
