// Copies blocks of a paged cache before one of two sequences that share them writes.
#pragma once
#include <cstddef>
#include <cstring>

#include "tenon/device/cpu.h"
#include "tenon/ops/args.h"

namespace tenon {

inline void copy_blocks(Cpu& /*device*/, const CopyBlocksArgs& args) {
  for (int layer = 0; layer < args.layers; ++layer) {
    const std::size_t bytes = args.layout.block_bytes;
    std::byte* blocks = args.storage + static_cast<std::size_t>(layer) * args.layout.blocks * bytes;
    for (const BlockCopy& copy : args.copies) {
      std::memcpy(blocks + static_cast<std::size_t>(copy.to) * bytes,
                  blocks + static_cast<std::size_t>(copy.from) * bytes, bytes);
    }
  }
}

}  // namespace tenon
