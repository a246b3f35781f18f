// One step's work as flat, ragged arrays: no padding, and no difference between prefill and decode.
#pragma once
#include <algorithm>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/core/views.h"

namespace tenon {

// Consecutive rows of a batch that continue one sequence.
struct SequenceRows {
  SeqId seq;
  int first_row;
  int rows;
  int start;       // position of the first row: so many tokens of the sequence are in the cache before it
  int slot;        // number of the sequence in the cache view of this step
  int prompt = 0;  // tokens of its prompt: rotary positions that scale with the text need it
  const AdapterSet* adapters = nullptr;  // of its request; null: none
};

// Rows of one sequence that a device takes together.
struct RowTile {
  int sequence;  // of the batch
  int first_row, rows;
};

// What ops read.
struct BatchView {
  const TokenId* tokens = nullptr;          // [rows]
  const int* positions = nullptr;           // [rows]
  const SequenceRows* sequences = nullptr;  // [sequence_count]
  const int* logit_rows = nullptr;          // [logit_count] rows whose logits somebody needs, ascending
  int rows = 0, sequence_count = 0, logit_count = 0;
  int longest = 0;                    // positions of its longest sequence, this step's included, or a few more
  const RowTile* tiles = nullptr;     // [tile_count] all rows, in order; null on devices that do not ask for tiles
  int tile_count = 0, tile_rows = 0;  // of a tile, at most
  const TokenId* picks =
      nullptr;  // what rows of the step before picked, where only the device knows it; null: the host does
};

// How a batch names a token that nobody but the device knows: as number i of BatchView::picks.
constexpr TokenId pick_at(int i) { return ~i; }

// The token of a row. One that is none, for its logits were not finite, reads as any: its request fails.
TENON_HD inline TokenId token_of(const BatchView& batch, int row) {
  const TokenId token = batch.tokens[row];
  if (token >= 0) return token;
  const TokenId picked = batch.picks[~token];
  return picked < 0 ? 0 : picked;
}

// Of at most so many rows each.
inline std::vector<RowTile> row_tiles(const BatchView& batch, int most) {
  std::vector<RowTile> tiles;
  for (int s = 0; s < batch.sequence_count; ++s) {
    const SequenceRows& rows = batch.sequences[s];
    for (int r = 0; r < rows.rows; r += most) tiles.push_back({s, rows.first_row + r, std::min(most, rows.rows - r)});
  }
  return tiles;
}

struct Batch {
  std::vector<TokenId> tokens;
  std::vector<int> positions;
  std::vector<SequenceRows> sequences;
  std::vector<int> logit_rows;
  const TokenId* picks = nullptr;

  void clear() {
    tokens.clear();
    positions.clear();
    sequences.clear();
    logit_rows.clear();
  }
  BatchView view() const {
    int longest = 0;
    for (const SequenceRows& s : sequences) longest = std::max(longest, s.start + s.rows);
    return {.tokens = tokens.data(),
            .positions = positions.data(),
            .sequences = sequences.data(),
            .logit_rows = logit_rows.data(),
            .rows = static_cast<int>(tokens.size()),
            .sequence_count = static_cast<int>(sequences.size()),
            .logit_count = static_cast<int>(logit_rows.size()),
            .longest = longest,
            .picks = picks};
  }
};

}  // namespace tenon
