// Batches whose requests have adapters on c_attn, compared with the same batches without. For adapters_peer and
// adapters_gpu_peer.
#pragma once
#include <tenon/tenon.h>
#include <tenon/testing/random_adapter.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine_work.h"

namespace bench {

constexpr int kRank = 16;

// The adapter of row i of a batch; rank 0: none.
struct RowAdapter {
  int which = 0, rank = 0;
  tenon::testing::RandomKind kind = tenon::testing::RandomKind::lora;
};
// 2 of 32 rows have rank 4, 21 have 8, 5 have 16 and 4 have 64: the same sum of ranks as 32 of 16.
inline int mixed_rank(int row) { return row % 32 < 2 ? 4 : row % 32 < 23 ? 8 : row % 32 < 28 ? 16 : 64; }

inline RowAdapter adapter_of(const std::string& kind, int row) {
  if (kind == "shared") return {0, kRank};
  if (kind == "distinct") return {row, kRank};
  if (kind == "dora") return {row, kRank, tenon::testing::RandomKind::dora};
  if (kind == "mixed") return {row, mixed_rank(row)};
  if (kind == "one") return {0, row == 0 ? kRank : 0};
  return {};
}

class AdapterBatches {
 public:
  explicit AdapterBatches(AnyEngine& engine)
      : engine_(engine),
        adapters_(tenon::adapter_sites(tenon::Gpt2::tensors(engine.config()), tenon::Gpt2::name_prefix),
                  tenon::Site::qkv) {}

  const tenon::testing::RandomAdapters& adapters() const { return adapters_; }

  // Measures a batch with adapters, and one without in the same seconds.
  nlohmann::json decode(const std::string& kind, int batch, int new_tokens) {
    std::vector<double> plain, adapted;
    for (int turn = 0; turn < 4; ++turn) {  // each of the two runs first equally often
      if (turn % 2 == 0) steps("none", batch, new_tokens, plain);
      steps(kind, batch, new_tokens, adapted);
      if (turn % 2 == 1) steps("none", batch, new_tokens, plain);
    }
    double factor_bytes = 0;
    for (int i = 0, last = -1; i < batch; ++i) {
      const RowAdapter adapter = adapter_of(kind, i);
      if (adapter.rank > 0 && std::exchange(last, adapter.which) != adapter.which)
        factor_bytes += adapters_.bytes(adapter.rank);
    }
    return {{"tok_s", batch / median(adapted)}, {"plain_tok_s", batch / median(plain)}, {"factor_bytes", factor_bytes}};
  }

 private:
  void steps(const std::string& kind, int batch, int new_tokens, std::vector<double>& seconds) {
    for (int i = 0; i < batch; ++i) {
      const RowAdapter adapter = adapter_of(kind, i);
      Request asked = request(kPrompt, new_tokens);
      if (adapter.rank > 0) asked.adapters = {{adapters_.folder(adapter.which, adapter.rank, adapter.kind)}};
      engine_.submit(std::move(asked));
    }
    run_steps(engine_, batch, seconds);
  }

  AnyEngine& engine_;
  tenon::testing::RandomAdapters adapters_;
};

}  // namespace bench
