// The laws of an element of keys and values (KvElement): a stored row is a function of that row alone.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include "tenon/core/elements.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

// A row as a cache stores it, and as attention reads it back.
template <class E>
struct StoredRow {
  std::vector<E> elements;
  float scale;

  explicit StoredRow(const std::vector<float>& row) : elements(row.size(), E{}) {
    scale = store_row(row.data(), static_cast<int>(row.size()), elements.data(), 1);
  }
  static float read(const E& element) {
    if constexpr (OwnKvElement<E>)
      return element.decode();
    else
      return static_cast<float>(element);
  }
  std::vector<float> values() const {
    std::vector<float> out;
    for (const E& element : elements) out.push_back(read(element) * scale);
    return out;
  }
  bool finite() const {
    const std::vector<float> all = values();
    return std::all_of(all.begin(), all.end(), [](float x) { return std::isfinite(x); });
  }
};

// Rows of 1 to 130 elements, whose largest magnitude lies between 2^-6 and 2^5, or that are zero.
inline std::vector<float> random_row(Random& random) {
  std::vector<float> row(static_cast<std::size_t>(random.between(1, 130)));
  const float size = random.between(0, 9) == 0 ? 0.0f : std::ldexp(1.0f, random.between(-6, 5));
  for (float& x : row) x = size * static_cast<float>(random.between(-1000, 1000)) / 1000;
  row.back() = random.between(0, 1) == 0 ? size : -size;
  return row;
}

template <class E>
void zero_laws(Violations& broken) {
  alignas(E) std::array<std::byte, sizeof(E)> zeros{};
  E element{};
  std::memcpy(static_cast<void*>(&element), zeros.data(), sizeof element);
  note(broken, std::isfinite(StoredRow<E>::read(element)), "element: zero bytes are read as a finite number");
}

template <class E>
void near(const std::vector<float>& row, const std::vector<float>& back, Violations& broken) {
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::fabs(x));
  for (std::size_t i = 0; i < row.size(); ++i)
    note(broken, std::fabs(back[i] - row[i]) <= 0.25f * largest,
         "element: a row is read back to within a quarter of its largest magnitude");
}

// A row with one value that is not finite. A finite result would hide the error.
template <class E>
void error_laws(Random& random, Violations& broken) {
  for (const float x : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity()}) {
    std::vector<float> row = random_row(random);
    row[static_cast<std::size_t>(random.between(0, static_cast<int>(row.size()) - 1))] = x;
    note(broken, !StoredRow<E>(row).finite(), "element: a row that is not finite is not read back as finite");
  }
}

}  // namespace detail

/// Stores random rows and reads them back: again, in another order, and on several threads at once. Rows are at most 32
/// in magnitude. Returns the broken laws.
template <class E>
Violations element_laws() {
  static_assert(KvElement<E>,
                "tenon: element_laws got a type that is no element of keys and values; it needs to be trivially "
                "copyable and default constructible, and static E encode(float) and float decode() const; see "
                "docs/write-a-policy.md#an-element-of-keys-and-values");
  Violations broken;
  if constexpr (KvElement<E>) {
    using Row = detail::StoredRow<E>;
    try {
      Random random(29);
      detail::zero_laws<E>(broken);
      std::vector<std::vector<float>> rows, back;
      for (int i = 0; i < 200; ++i) {
        rows.push_back(detail::random_row(random));
        back.push_back(Row(rows.back()).values());
        detail::near<E>(rows.back(), back.back(), broken);
        detail::error_laws<E>(random, broken);
      }
      const auto again = [&] {
        bool same = true;
        for (std::size_t i = rows.size(); i-- > 0;) same = detail::same_bits(Row(rows[i]).values(), back[i]) && same;
        return same;
      };
      detail::note(broken, again(), "element: equal rows are stored alike, whatever was stored between");
      auto one = std::async(std::launch::async, again), two = std::async(std::launch::async, again);
      const bool same = one.get(), both = two.get() && same;
      detail::note(broken, both, "element: any thread stores the same, several at once");
    } catch (const std::exception& e) {
      broken.push_back(std::string("element: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

}  // namespace tenon::testing
