/// One step's work as flat, ragged arrays: no padding, and no difference between prefill and decode.
#pragma once
#include <algorithm>
#include <vector>

#include "tenon/core/low_rank.h"
#include "tenon/core/views.h"

namespace tenon {

/// Consecutive rows of a batch that continue one sequence.
struct SequenceRows {
  SeqId seq;
  int first_row;
  int rows;
  int start;       ///< position of the first row, which is the number of tokens in the cache before it
  int slot;        ///< number of the sequence in the cache view of this step
  int prompt = 0;  ///< tokens of its prompt, for rotary positions that scale with the text
  const AdapterSet* adapters = nullptr;  ///< adapters of its request, not owned; null: none
  int adapters_from = 0;                 ///< position from which its rows have them

  /// Its first row with adapters, relative to first_row; `rows` if none has.
  int first_adapted() const { return adapters ? std::clamp(adapters_from - start, 0, rows) : rows; }
};

/// Rows of one sequence that a device takes together.
struct RowTile {
  int sequence;  ///< its number in the batch
  int first_row, rows;
};

/// A batch as ops read it, in the device's memory. It owns nothing.
struct BatchView {
  const TokenId* tokens = nullptr;          ///< [rows]
  const int* positions = nullptr;           ///< [rows]
  const SequenceRows* sequences = nullptr;  ///< [sequence_count]
  const int* logit_rows = nullptr;          ///< [logit_count] rows whose logits are needed, ascending
  int rows = 0, sequence_count = 0, logit_count = 0;
  int longest = 0;                    ///< positions of the longest sequence after this step, or a few more
  const RowTile* tiles = nullptr;     ///< [tile_count] all rows, in order; null unless the device is TilesRows
  int tile_count = 0, tile_rows = 0;  ///< number of tiles, and most rows of one
  /// Tokens that rows of the step before picked, if only the device knows them; null: the host knows them.
  const TokenId* picks = nullptr;
};

/// The name of a token that only the device knows: number i of BatchView::picks.
constexpr TokenId pick_at(int i) { return ~i; }

/// The token of a row. If its logits were not finite there is no token: it reads as 0, and its request fails.
TENON_HD inline TokenId token_of(const BatchView& batch, int row) {
  const TokenId token = batch.tokens[row];
  if (token >= 0) return token;
  const TokenId picked = batch.picks[~token];
  return picked < 0 ? 0 : picked;
}

/// The rows of a batch in tiles of at most `most` rows of one sequence.
inline std::vector<RowTile> row_tiles(const BatchView& batch, int most) {
  std::vector<RowTile> tiles;
  for (int s = 0; s < batch.sequence_count; ++s) {
    const SequenceRows& rows = batch.sequences[s];
    for (int r = 0; r < rows.rows; r += most) tiles.push_back({s, rows.first_row + r, std::min(most, rows.rows - r)});
  }
  return tiles;
}

/// A batch on the host.
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
