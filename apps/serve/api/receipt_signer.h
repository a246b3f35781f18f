// The key of --receipt-key, which SIGHUP reads again.
#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>

#include "signature/receipt_key.h"

namespace serve {

class ReceiptSigner {
 public:
  // file: empty for none. Errors: those of ReceiptKey::read.
  explicit ReceiptSigner(std::filesystem::path file) : file_(std::move(file)), key_(read()) {}

  // Null: receipts are not signed. A request keeps the key that it began with.
  std::shared_ptr<const program::ReceiptKey> key() const {
    const std::lock_guard lock(mutex_);
    return key_;
  }

  // After an error the key stays.
  void read_again() {
    auto key = read();
    const std::lock_guard lock(mutex_);
    key_ = std::move(key);
  }

 private:
  std::shared_ptr<const program::ReceiptKey> read() const {
    if (file_.empty()) return nullptr;
    return std::make_shared<const program::ReceiptKey>(program::ReceiptKey::read("--receipt-key", file_));
  }

  const std::filesystem::path file_;
  mutable std::mutex mutex_;  // guards the next
  std::shared_ptr<const program::ReceiptKey> key_;
};

}  // namespace serve
