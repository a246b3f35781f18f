// The real BlockLedger, of any block size behind one type, which now and then refuses room that it has. A ledger may:
// what is free need not be free for everybody. Only the oldest running sequence, which must get through, never is.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "tenon/cache/block_ledger.h"
#include "tenon/core/concepts.h"
#include "tenon/schedule/sequence.h"
#include "tenon/testing/random.h"

namespace tenon::testing::detail {

class SimulatedLedger {
 public:
  SimulatedLedger(int block_tokens, int blocks, int positions, std::uint64_t hash_mask, std::uint64_t seed)
      : block_tokens_(block_tokens), ledger_(make(block_tokens, blocks, positions, hash_mask)), random_(seed) {}

  int free_tokens() const { return ledger_->free_tokens(); }
  int capacity_tokens() const { return ledger_->capacity_tokens(); }
  bool grow(SeqId seq, int tokens) {
    if (refuses(seq)) return false;
    const bool grown = ledger_->grow(seq, tokens);
    ran_dry_ = ran_dry_ || ledger_->blank_blocks() == 0;
    return grown;
  }
  void release(SeqId seq) { ledger_->release(seq); }
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
  std::span<const std::int32_t> blocks(SeqId seq) const { return ledger_->blocks(seq); }
  int references(std::int32_t block) const { return ledger_->references(block); }
  int block_count() const { return ledger_->block_count(); }
  int kept_blocks() const { return ledger_->kept_blocks(); }
  int blank_blocks() const { return ledger_->blank_blocks(); }
  int block_tokens() const { return block_tokens_; }
  int blocks_of(int tokens) const { return (tokens + block_tokens_ - 1) / block_tokens_; }

  // From here to the next call so many of a thousand requests for room are refused, but none of `spared`.
  void refuse(int per_mille, SeqId spared) {
    per_mille_ = per_mille;
    spared_ = spared;
  }
  int refusals() const { return refusals_; }
  // Whether what was kept may have been forgotten. Once it was, nobody knows any more what will be found.
  bool may_have_evicted() const { return ran_dry_; }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual int free_tokens() const = 0;
    virtual int capacity_tokens() const = 0;
    virtual bool grow(SeqId seq, int tokens) = 0;
    virtual void release(SeqId seq) = 0;
    virtual PrefixMatch match(std::span<const TokenId> tokens, std::string_view identity) const = 0;
    virtual int reuse(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) = 0;
    virtual void publish(SeqId seq, std::span<const TokenId> tokens, std::string_view identity) = 0;
    virtual bool fork(SeqId parent, SeqId child, int tokens) = 0;
    virtual std::span<const BlockCopy> copies() const = 0;
    virtual void clear_copies() = 0;
    virtual void forget_prefixes() = 0;
    virtual std::span<const std::int32_t> blocks(SeqId seq) const = 0;
    virtual int references(std::int32_t block) const = 0;
    virtual int block_count() const = 0;
    virtual int kept_blocks() const = 0;
    virtual int blank_blocks() const = 0;
  };

  template <int BlockTokens>
  struct Holder final : Base {
    Holder(int blocks, int positions, std::uint64_t hash_mask) : ledger(blocks, positions, hash_mask) {}
    int free_tokens() const override { return ledger.free_tokens(); }
    int capacity_tokens() const override { return ledger.capacity_tokens(); }
    bool grow(SeqId seq, int tokens) override { return ledger.grow(seq, tokens); }
    void release(SeqId seq) override { ledger.release(seq); }
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
    std::span<const BlockCopy> copies() const override { return ledger.copies(); }
    void clear_copies() override { ledger.clear_copies(); }
    void forget_prefixes() override { ledger.forget_prefixes(); }
    std::span<const std::int32_t> blocks(SeqId seq) const override { return ledger.blocks(seq); }
    int references(std::int32_t block) const override { return ledger.references(block); }
    int block_count() const override { return ledger.block_count(); }
    int kept_blocks() const override { return ledger.kept_blocks(); }
    int blank_blocks() const override { return ledger.blank_blocks(); }
    BlockLedger<BlockTokens> ledger;
  };

  static std::unique_ptr<Base> make(int block_tokens, int blocks, int positions, std::uint64_t hash_mask) {
    switch (block_tokens) {
      case 1:
        return std::make_unique<Holder<1>>(blocks, positions, hash_mask);
      case 2:
        return std::make_unique<Holder<2>>(blocks, positions, hash_mask);
      case 4:
        return std::make_unique<Holder<4>>(blocks, positions, hash_mask);
      case 32:
        return std::make_unique<Holder<32>>(blocks, positions, hash_mask);
      case 64:
        return std::make_unique<Holder<64>>(blocks, positions, hash_mask);
      default:
        return std::make_unique<Holder<16>>(blocks, positions, hash_mask);
    }
  }

  bool refuses(SeqId seq) {
    if (per_mille_ == 0 || seq == spared_ || random_.between(0, 999) >= per_mille_) return false;
    ++refusals_;
    return true;
  }

  int block_tokens_;
  std::unique_ptr<Base> ledger_;
  Random random_;
  int per_mille_ = 0, refusals_ = 0;
  SeqId spared_ = kNoParent;
  bool ran_dry_ = false;
};
static_assert(ReusesPrefixes<SimulatedLedger> && ForksSequences<SimulatedLedger>);

}  // namespace tenon::testing::detail
