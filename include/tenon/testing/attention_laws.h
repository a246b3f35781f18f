// The laws of AttentionPolicy. A row's result depends on its own text up to its own position, and on nothing beside or
// after it, to the bit. Keys and values are those of the sequence's slot. Tiles that no row sees are not read.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tenon/core/concepts.h"
#include "tenon/device/cpu.h"
#include "tenon/model/device_batch.h"
#include "tenon/ops/args.h"
#include "tenon/ops/cpu/attention.h"
#include "tenon/ops/reference.h"
#include "tenon/testing/fits.h"
#include "tenon/testing/random.h"

namespace tenon::testing {

namespace detail {

// Tiles of keys and values of one layer on the host, filled with NaN. A request for a tile that no row of the step sees
// is noted, and returns a tile of NaN.
template <class E>
class WatchedTiles {
 public:
  struct View {
    using Element = E;
    WatchedTiles* tiles = nullptr;
    KvTile<E> tile(int layer, int slot, int head, int t) const { return tiles->at(layer, slot, head, t); }
  };

  WatchedTiles(const KvShape& shape, int slots)
      : shape_(shape), a_slot_(shape.positions / kTilePositions + 1), seen_(static_cast<std::size_t>(slots)) {
    memory_.assign(size(slots * shape.heads * a_slot_ + 1) * shape.tile_bytes<E>(), std::byte{0xff});
  }

  void forget_all() { std::fill(seen_.begin(), seen_.end(), Tiles{}); }
  // Says that a row of this step sees positions first..end-1 of a slot.
  void see(int slot, int first, int end) {
    Tiles& tiles = seen_[size(slot)];
    tiles.first = tiles.end == 0 ? first / kTilePositions : std::min(tiles.first, first / kTilePositions);
    tiles.end = std::max(tiles.end, (end + kTilePositions - 1) / kTilePositions);
  }
  bool strayed() const { return strayed_; }
  View view() { return {this}; }

 private:
  struct Tiles {
    int first = 0, end = 0;
  };
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }

  KvTile<E> at(int layer, int slot, int head, int t) {
    const bool known = layer == 0 && slot >= 0 && size(slot) < seen_.size() && head >= 0 && head < shape_.heads &&
                       t >= seen_[size(slot)].first && t < seen_[size(slot)].end;
    if (!known) strayed_ = true;
    const int none = static_cast<int>(seen_.size()) * shape_.heads * a_slot_;
    std::byte* tile =
        memory_.data() + size(known ? (slot * shape_.heads + head) * a_slot_ + t : none) * shape_.tile_bytes<E>();
    auto* keys = reinterpret_cast<E*>(tile);
    E* values = keys + kTilePositions * shape_.head_dim;
    if constexpr (has_scales<E>) {
      auto* scales = reinterpret_cast<float*>(values + kTilePositions * shape_.value_stride());
      return {keys, values, scales, scales + kTilePositions};
    } else {
      return {keys, values};
    }
  }

  KvShape shape_;
  int a_slot_;  // tiles of a head
  std::vector<Tiles> seen_;
  std::vector<std::byte> memory_;  // [slots, heads, a_slot_] tiles, and one of NaN
  std::atomic<bool> strayed_ = false;
};

// Runs the rows of three texts through a policy, in steps of every kind.
template <class E, class P>
class AttentionTrial {
 public:
  AttentionTrial(const P& policy, int window, bool sloped, Violations& broken)
      : policy_(policy), window_(window), broken_(broken) {
    int rows = 0;
    for (int text = 0; text < kTexts; ++text) rows += kLengths[index(text)];
    for (auto [matrix, width, scale] :
         {Fill{&q_, kHeads * kDim, 4.0f}, {&keys_, kKvHeads * kDim, 1.0f}, {&values_, kKvHeads * kDim, 1.0f}})
      for (int i = 0; i < rows * width; ++i)
        matrix->push_back(scale * (static_cast<float>(random_.between(-1000, 1000)) / 1000));
    if (sloped) slopes_ = {0.25f, 0.0625f, 0.5f, 0.015625f};
  }

  // Checks all laws on one device. The reference is the first device, row by row.
  template <class D>
  void run(D& device) {
    if (truth_.empty()) {
      truth_ = alone(device);
      weights_of_one(device);
    } else {
      check(alone(device), "attention: threads and devices of one name change no bit");
    }
    constexpr auto kAny = "attention: a row gets the same bits alone and beside others, at once and in pieces";
    check(in_pieces(device, 1, kInOrder), kAny);
    check(in_pieces(device, 7, kInOrder), kAny);
    check(in_pieces(device, 5, kReversed), kSlot);
    if (!again(device, {{2, 3}, {2, 40}, {2, 299}, {1, 0}, {1, 69}})) broke(kSlot);
    poisoned(device);
  }

  void hooks() {
    if constexpr (ScoresTiles<P>) {
      bool equal = true;
      for (int i = 0; i < 200; ++i) {
        std::array<float, kTilePositions> tile;
        for (float& s : tile) s = static_cast<float>(random_.between(-4000, 4000)) / 500;
        const auto before = tile;
        const int first = random_.between(0, 30) * kTilePositions, row = first + random_.between(15, 300);
        const int head = random_.between(0, kHeads - 1);
        policy_.scores(row, first, head, tile);
        for (int t = 0; t < kTilePositions; ++t) {
          const float one = policy_.score(row, first + t, head, before[index(t)]);
          equal = equal && std::memcmp(&one, &tile[index(t)], sizeof one) == 0;
        }
      }
      if (!equal) broke("attention: scores() gives the bits of score()");
    }
  }

 private:
  using View = typename WatchedTiles<E>::View;
  using Rows = std::vector<float>;
  struct Fill {
    Rows* matrix;
    int width;
    float scale;
  };
  struct Piece {
    int text, start, rows;
  };
  struct Row {
    int text, position;
  };

  static constexpr int kTexts = 3, kHeads = 4, kKvHeads = 2, kDim = 20, kGap = 3;
  static constexpr std::array kLengths = {9, 70, 300};  // beyond a split of 256
  static constexpr std::array kInOrder = {0, 1, 2}, kReversed = {2, 1, 0};
  static constexpr float kUntouched = -12345.5f;
  static constexpr auto kSlot =
      "attention: keys and values are those of SequenceRows::slot; it is no index into BatchView::sequences";
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  static int row_of(int text, int position) {
    for (int t = 0; t < text; ++t) position += kLengths[index(t)];
    return position;
  }
  void broke(const char* law) { note(broken_, false, law); }
  WatchedTiles<E> tiles() const {
    return WatchedTiles<E>({.layers = 1, .heads = kKvHeads, .head_dim = kDim, .positions = kLengths.back()}, kTexts);
  }

  // One step: stores each piece's keys and values if `stores`, and computes its rows of `out`.
  template <class D>
  void step(D& device, WatchedTiles<E>& kv, const std::vector<Piece>& pieces, std::span<const int> slots, bool stores,
            Rows& out) {
    Batch batch;
    Rows q, keys, values;
    const auto take = [](const Rows& from, int row, int width, Rows& to) {
      to.insert(to.end(), from.begin() + std::ptrdiff_t{row} * width, from.begin() + std::ptrdiff_t{row + 1} * width);
    };
    kv.forget_all();
    for (const Piece& p : pieces) {
      const int slot = slots[index(p.text)], first = static_cast<int>(batch.tokens.size());
      batch.sequences.push_back({static_cast<SeqId>(p.text), first, p.rows, p.start, slot});
      kv.see(slot, window_ > 0 ? std::max(0, p.start - window_ + 1) : 0, p.start + p.rows);
      for (int position = p.start; position < p.start + p.rows; ++position) {
        batch.tokens.push_back(0);
        batch.positions.push_back(position);
        take(q_, row_of(p.text, position), kHeads * kDim, q);
        q.insert(q.end(), kGap, kUntouched);
        take(keys_, row_of(p.text, position), kKvHeads * kDim, keys);
        take(values_, row_of(p.text, position), kKvHeads * kDim, values);
      }
    }
    const int rows = static_cast<int>(batch.tokens.size());
    if (stores) {
      reference::store_kv(StoreKvArgs<View>{batch.view(),
                                            {keys.data(), rows, kKvHeads * kDim, kKvHeads * kDim},
                                            {values.data(), rows, kKvHeads * kDim, kKvHeads * kDim},
                                            kv.view(),
                                            0,
                                            kKvHeads,
                                            kDim});
    }
    constexpr int kStride = kHeads * kDim + kGap;
    Rows y(q.size(), kUntouched);
    device.begin_step();
    attention(device, policy_,
              AttentionArgs<View>{.batch = on_device(device, batch.view(), tile_rows<D, P>(kHeads / kKvHeads)),
                                  .q = {q.data(), rows, kHeads * kDim, kStride},
                                  .kv = kv.view(),
                                  .layer = 0,
                                  .heads = kHeads,
                                  .kv_heads = kKvHeads,
                                  .head_dim = kDim,
                                  .scale = 0.25f,
                                  .out = {y.data(), rows, kHeads * kDim, kStride},
                                  .window = window_,
                                  .slopes = slopes_.empty() ? nullptr : slopes_.data()});
    device.synchronize();
    int r = 0;
    for (const Piece& p : pieces) {
      for (int position = p.start; position < p.start + p.rows; ++position, ++r) {
        const auto from = y.begin() + std::ptrdiff_t{r} * kStride;
        std::copy_n(from, kHeads * kDim, out.begin() + std::ptrdiff_t{row_of(p.text, position)} * kHeads * kDim);
        if (!std::all_of(from + kHeads * kDim, from + kStride, [](float x) { return x == kUntouched; }))
          broke("attention: writes the rows of out, and nothing between them");
      }
    }
  }

  // Row by row, and text by text.
  template <class D>
  Rows alone(D& device) {
    Rows out(q_.size());
    for (int text = 0; text < kTexts; ++text) {
      auto kv = tiles();
      for (int t = 0; t < kLengths[index(text)]; ++t) step(device, kv, {{text, t, 1}}, std::array{0, 0, 0}, true, out);
      if (kv.strayed()) broke(kStrays);
    }
    return out;
  }

  // All texts in each step, each cut into `pieces`.
  template <class D>
  Rows in_pieces(D& device, int pieces, std::span<const int> slots) {
    auto kv = tiles();
    Rows out(q_.size());
    for (int i = 0; i < pieces; ++i) {
      std::vector<Piece> step_of;
      for (int text = 0; text < kTexts; ++text) {
        const int start = kLengths[index(text)] * i / pieces, end = kLengths[index(text)] * (i + 1) / pieces;
        step_of.push_back({text, start, end - start});
      }
      step(device, kv, step_of, slots, true, out);
    }
    if (kv.strayed()) broke(slots[0] == 0 ? kStrays : kSlot);
    return out;
  }

  // Single rows of texts that are stored already, several of one slot, as in the last layer.
  template <class D>
  bool again(D& device, const std::vector<Row>& rows) {
    auto kv = tiles();
    Rows out(q_.size());
    step(device, kv, {{0, 0, kLengths[0]}, {1, 0, kLengths[1]}, {2, 0, kLengths[2]}}, kReversed, true, out);
    std::fill(out.begin(), out.end(), kUntouched);
    std::vector<Piece> singles;
    for (const Row& row : rows) singles.push_back({row.text, row.position, 1});
    step(device, kv, singles, kReversed, false, out);
    bool equal = !kv.strayed();
    for (const Row& row : rows) equal = equal && same(out, row_of(row.text, row.position), 1);
    return equal;
  }

  template <class D>
  void poisoned(D& device) {
    const Rows keys = keys_, values = values_;
    for (int r = row_of(1, 0); r < row_of(2, 0); ++r) {
      for (int c = 0; c < kKvHeads * kDim; ++c) {
        const std::size_t at = index(r * kKvHeads * kDim + c);
        keys_[at] = values_[at] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    const Rows out = in_pieces(device, 3, kInOrder);
    keys_ = keys;
    values_ = values;
    if (!same(out, 0, kLengths[0]) || !same(out, row_of(2, 0), kLengths[2]))
      broke("attention: NaN of one text reaches no other");
  }

  // Values of 1 give 1, or 0 for a row from which a variant hides all keys.
  template <class D>
  void weights_of_one(D& device) {
    const Rows values = values_;
    std::fill(values_.begin(), values_.end(), 1.0f);
    const Rows out = in_pieces(device, 1, kInOrder);
    values_ = values;
    const bool ones = std::all_of(out.begin(), out.end(),
                                  [](float x) { return std::fabs(x - 1) < 1e-4f || (AttentionVariant<P> && x == 0); });
    if (!ones) broke("attention: the weights of a row sum to 1");
  }

  bool same(const Rows& out, int first, int rows) const {
    const std::size_t at = index(first * kHeads * kDim), count = index(rows * kHeads * kDim);
    return std::memcmp(out.data() + at, truth_.data() + at, count * sizeof(float)) == 0;
  }
  void check(const Rows& out, const char* law) {
    if (!same(out, 0, static_cast<int>(out.size()) / (kHeads * kDim))) broke(law);
  }

  static constexpr auto kStrays = "attention: asks for no tile that no row of the step sees";
  P policy_;
  int window_;
  Violations& broken_;
  Random random_{11};
  Rows q_, keys_, values_;  // [rows of all texts, heads * head_dim]
  Rows slopes_;             // [heads], or none
  Rows truth_;
};

}  // namespace detail

/// Runs an attention policy over texts, with and without a window and ALiBi. All devices must give equal bits; their
/// memory must be the host's. Element: of keys and values. Returns the broken laws, after at most a few seconds.
template <class Element = float, class P, DevicePolicy... D>
Violations attention_laws(const P& policy, D&... devices) {
  static_assert(sizeof...(D) > 0);
  detail::must_fit<Attention<P>>();
  Violations broken;
  if constexpr (detail::fits<Attention<P>>) {
    try {
      for (const int window : {0, 33}) {
        detail::AttentionTrial<Element, P> trial(policy, window, window > 0, broken);
        (trial.run(devices), ...);
        trial.hooks();
      }
    } catch (const std::exception& e) {
      broken.push_back(std::string("attention: throws nothing, but threw: ") + e.what());
    }
  }
  return broken;
}

/// On the CPU, with one thread and with three.
template <class Element = float, class P>
Violations attention_laws(const P& policy = {}) {
  Cpu one({.threads = 1}), three({.threads = 3});
  return attention_laws<Element>(policy, one, three);
}

}  // namespace tenon::testing
