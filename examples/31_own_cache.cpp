// A cache of your own, for many short texts: every sequence has a slot of 128 tokens. The ledger says who has room, the
// view where a tile lies.
#include <tenon/tenon.h>
#include <tenon/testing/cache_laws.h>

#include <map>
#include <vector>

#include "common/example.h"

// [policy]
constexpr int kSlot = 128;  // tokens: eight tiles of each head

struct Slots {
  struct Taken {
    int slot = 0, tokens = 0;
  };
  std::vector<int> free;
  std::map<tenon::SeqId, Taken> taken;

  int free_tokens() const { return static_cast<int>(free.size()) * kSlot; }
  int capacity_tokens() const { return kSlot; }
  bool grow(tenon::SeqId seq, int tokens) {
    if (tokens > kSlot - (taken.contains(seq) ? taken[seq].tokens : 0)) return false;
    if (!taken.contains(seq)) {
      if (free.empty()) return false;
      taken[seq].slot = free.back();
      free.pop_back();
    }
    taken[seq].tokens += tokens;
    return true;
  }
  void release(tenon::SeqId seq) {
    if (taken.contains(seq)) free.push_back(taken[seq].slot);
    taken.erase(seq);
  }
};

struct ShortTexts {
  static constexpr bool keeps_tokens = true;
  using Storage = tenon::BlockStorage<kSlot, float>;
  using Ledger = Slots;
  struct View {
    using Element = float;
    tenon::TileGrid<float> grid;
    const std::int32_t* table = nullptr;  // [sequences] slots
    tenon::KvTile<float> tile(int layer, int sequence, int head, int tile) const {
      return grid.at(layer, table[sequence], head, tile);
    }
  };
  static Ledger ledger(const tenon::KvShape&, int tokens) {
    Ledger ledger;
    for (int slot = tenon::block_count(tokens, kSlot); slot-- > 0;) ledger.free.push_back(slot);
    return ledger;
  }
  static std::size_t bytes(const tenon::KvShape& shape, int tokens) { return Storage::bytes(shape, tokens); }
  static std::size_t table_entries(const tenon::KvShape&, std::span<const tenon::SequenceRows> rows) {
    return rows.size();
  }
  static View view(const tenon::KvShape& shape, int tokens, const Ledger& ledger,
                   std::span<const tenon::SequenceRows> rows, void* storage, std::span<std::int32_t> table) {
    for (std::size_t i = 0; i < rows.size(); ++i) table[i] = ledger.taken.at(rows[i].seq).slot;
    return {Storage::grid(shape, tokens, storage), table.data()};
  }
};
// [/policy]

int main(int argc, char** argv) try {
  const auto files = tenon::load_checkpoint(example::Arguments(argc, argv).text("--model"));
  const auto broken = tenon::testing::cache_laws<ShortTexts>();
  for (const auto& law : broken) std::printf("broken law: %s\n", law.c_str());
  tenon::Engine<tenon::Gpt2, tenon::Cache<ShortTexts>> mine{files};
  tenon::Engine<tenon::Gpt2> paged{files};
  const tenon::Request request{.prompt = example::kPrompt, .options = {.max_new_tokens = 20}};
  const bool same = mine.complete(request).ids == paged.complete(request).ids;
  return example::verdict("no law is broken, and the answer is that of PagedKV", broken.empty() && same);
} catch (const std::exception& error) {
  return example::failed(error);
}
