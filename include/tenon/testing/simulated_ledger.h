/// The real ledgers, BlockLedger or WindowLedger, of any block size as one type. It refuses room now and then, although
/// it has some. A ledger may do so: free tokens need not be free for every sequence. It never refuses the oldest
/// running sequence, which must reach its end, and no sequence the room that it already owns.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tenon/cache/block_ledger.h"
#include "tenon/cache/window_ledger.h"
#include "tenon/core/concepts.h"
#include "tenon/schedule/sequence.h"
#include "tenon/testing/random.h"
#include "tenon/testing/simulated_engine.h"

namespace tenon::testing::detail {

// Parameters of a simulated ledger.
struct LedgerShape {
  int block_tokens = 16, blocks = 64, positions = 1024;
  int window = 0;  // 0: a BlockLedger
  std::uint64_t hash_mask = 0;
};

class SimulatedLedger {
 public:
  SimulatedLedger(const LedgerShape& shape, std::uint64_t seed) : shape_(shape), ledger_(make(shape)), random_(seed) {}

  int free_tokens() const { return ledger_->free_tokens(); }
  int capacity_tokens() const { return ledger_->capacity_tokens(); }
  bool grow(SeqId seq, int tokens) {
    if (tokens > ledger_->own_room(seq) && refuses(seq)) return false;
    const bool grown = ledger_->grow(seq, tokens);
    ran_dry_ = ran_dry_ || ledger_->blank_blocks() == 0;
    return grown;
  }
  void release(SeqId seq) { ledger_->release(seq); }

  // ---- without a window

  void shrink(SeqId seq, int tokens) { ledger_->shrink(seq, tokens); }

  PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const {
    return ledger_->match(tokens, identity);
  }
  int reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
    return ledger_->reuse(seq, tokens, identity);
  }
  void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) {
    ledger_->publish(seq, tokens, identity);
  }
  bool fork(SeqId parent, SeqId child, int tokens) {
    if (refuses(child)) return false;
    const bool forked = ledger_->fork(parent, child, tokens);
    ran_dry_ = ran_dry_ || ledger_->blank_blocks() == 0;
    return forked;
  }
  std::span<const BlockCopy> copies() const { return ledger_->copies(); }
  void clear_copies() { ledger_->clear_copies(); }
  void forget_prefixes() {
    ledger_->forget_prefixes();
    ran_dry_ = true;
  }
  int references(std::int32_t block) const { return ledger_->references(block); }
  int kept_blocks() const { return ledger_->kept_blocks(); }

  // ---- with a window

  void trim(SeqId seq, int before) { ledger_->trim(seq, before); }
  int held_at_most(int tokens) const { return ledger_->held_at_most(tokens); }

  // ---- ChoosesLedger

  bool forks() const { return shape_.window == 0; }
  bool shrinks() const { return shape_.window == 0; }

  // ---- for the invariants

  SimulatedTable table(SeqId seq) const { return ledger_->table(seq); }
  // Blocks that no row sees any more included.
  std::span<const std::int32_t> held(SeqId seq) const { return ledger_->held(seq); }
  int blank_blocks() const { return ledger_->blank_blocks(); }
  int blocks_of(int tokens) const { return (tokens + shape_.block_tokens - 1) / shape_.block_tokens; }

  // Until the next call this number of a thousand requests for room is refused, but none of `spared`.
  void refuse(int per_mille, SeqId spared) {
    per_mille_ = per_mille;
    spared_ = spared;
  }
  int refusals() const { return refusals_; }
  // Whether kept blocks may have been evicted. Once one was, it is unknown which prefixes will be found.
  bool may_have_evicted() const { return ran_dry_; }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual int free_tokens() const = 0;
    virtual int capacity_tokens() const = 0;
    virtual bool grow(SeqId seq, int tokens) = 0;
    virtual void release(SeqId seq) = 0;
    virtual SimulatedTable table(SeqId seq) const = 0;
    virtual std::span<const std::int32_t> held(SeqId seq) const = 0;
    virtual int blank_blocks() const = 0;
    virtual int own_room(SeqId) const { return 0; }
    virtual PrefixMatch match(std::span<const TokenId>, std::string_view) const { return {}; }
    virtual int reuse(SeqId, std::span<const TokenId>, std::string_view) { return 0; }
    virtual void publish(SeqId, std::span<const TokenId>, std::string_view) {}
    virtual bool fork(SeqId, SeqId, int) { return false; }
    virtual void shrink(SeqId, int) {}
    virtual std::span<const BlockCopy> copies() const { return {}; }
    virtual void clear_copies() {}
    virtual void forget_prefixes() {}
    virtual int references(std::int32_t) const { return 1; }
    virtual int kept_blocks() const { return 0; }
    virtual void trim(SeqId, int) {}
    virtual int held_at_most(int tokens) const { return tokens; }
  };

  template <class L>
  struct Holder : Base {
    template <class... Sizes>
    explicit Holder(Sizes... sizes) : ledger(sizes...) {}
    int free_tokens() const override { return ledger.free_tokens(); }
    int capacity_tokens() const override { return ledger.capacity_tokens(); }
    bool grow(SeqId seq, int tokens) override { return ledger.grow(seq, tokens); }
    void release(SeqId seq) override { ledger.release(seq); }
    L ledger;
  };

  template <int BlockTokens>
  struct Sharing final : Holder<BlockLedger<BlockTokens>> {
    explicit Sharing(const LedgerShape& s) : Holder<BlockLedger<BlockTokens>>(s.blocks, s.positions, s.hash_mask) {}
    using Holder<BlockLedger<BlockTokens>>::ledger;
    SimulatedTable table(SeqId seq) const override { return {0, ledger.blocks(seq)}; }
    std::span<const std::int32_t> held(SeqId seq) const override { return ledger.blocks(seq); }
    int blank_blocks() const override { return ledger.blank_blocks(); }
    PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const override {
      return ledger.match(tokens, identity);
    }
    int reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) override {
      return ledger.reuse(seq, tokens, identity);
    }
    void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) override {
      ledger.publish(seq, tokens, identity);
    }
    bool fork(SeqId parent, SeqId child, int tokens) override { return ledger.fork(parent, child, tokens); }
    void shrink(SeqId seq, int tokens) override { ledger.shrink(seq, tokens); }
    std::span<const BlockCopy> copies() const override { return ledger.copies(); }
    void clear_copies() override { ledger.clear_copies(); }
    void forget_prefixes() override { ledger.forget_prefixes(); }
    int references(std::int32_t block) const override { return ledger.references(block); }
    int kept_blocks() const override { return ledger.kept_blocks(); }
  };

  template <int BlockTokens>
  struct Windowed final : Holder<WindowLedger<BlockTokens>> {
    explicit Windowed(const LedgerShape& s) : Holder<WindowLedger<BlockTokens>>(s.blocks, s.positions, s.window) {}
    using Holder<WindowLedger<BlockTokens>>::ledger;
    SimulatedTable table(SeqId seq) const override {
      const auto living = ledger.living(seq);
      return {living.first, living.blocks};
    }
    std::span<const std::int32_t> held(SeqId seq) const override { return ledger.ring(seq); }
    int blank_blocks() const override { return ledger.free_tokens() / BlockTokens; }
    int own_room(SeqId seq) const override { return ledger.own_room(seq); }
    void trim(SeqId seq, int before) override { ledger.trim(seq, before); }
    int held_at_most(int tokens) const override { return ledger.held_at_most(tokens); }
  };

  template <int BlockTokens>
  static std::unique_ptr<Base> make_of(const LedgerShape& shape) {
    if (shape.window > 0) return std::make_unique<Windowed<BlockTokens>>(shape);
    return std::make_unique<Sharing<BlockTokens>>(shape);
  }
  static std::unique_ptr<Base> make(const LedgerShape& shape) {
    switch (shape.block_tokens) {
      case 1:
        return make_of<1>(shape);
      case 2:
        return make_of<2>(shape);
      case 4:
        return make_of<4>(shape);
      case 32:
        return make_of<32>(shape);
      case 64:
        return make_of<64>(shape);
      default:
        return make_of<16>(shape);
    }
  }

  bool refuses(SeqId seq) {
    if (per_mille_ == 0 || seq == spared_ || random_.between(0, 999) >= per_mille_) return false;
    ++refusals_;
    return true;
  }

  LedgerShape shape_;
  std::unique_ptr<Base> ledger_;
  Random random_;
  int per_mille_ = 0, refusals_ = 0;
  SeqId spared_ = kNoSequence;
  bool ran_dry_ = false;
};
static_assert(ChoosesLedger<SimulatedLedger>);

}  // namespace tenon::testing::detail
