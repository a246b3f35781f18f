// The engines that a command line can name: a list of those compiled in, and how to make one. Shared with the server.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/adapter/any_lora.h"
#include "tenon/adapter/options.h"
#include "tenon/core/concepts.h"
#include "tenon/core/views.h"
#include "tenon/engine/any_engine.h"
#include "tenon/engine/step_report.h"
#include "tenon/model/load.h"
#include "tenon/schedule/any_scheduler.h"

namespace program {

// Run-time settings of an engine. tenon::EngineOptions would include every op in each file that includes this one.
struct EngineSettings {
  tenon::AnyScheduler scheduler;
  tenon::AnyLoRA lora = {};
  tenon::AdapterOptions adapters = {};
  std::vector<tenon::AdapterUse> merged = {};
  int threads = 0, batch = 32, token_budget = 512, cache_tokens = 0, positions = 0;
  bool prefix_reuse = true;
  bool guesses = false;                                     // tokens are guessed
  bool guesses_from_others = false;                         // also from other texts of a client
  bool takes_all_guesses = false;                           // also where they do not pay
  tenon::CacheKind cache_kind = tenon::CacheKind::paged16;  // of MenuEntry::caches
  tenon::KvType cache_element = tenon::KvType::float32;     // of MenuEntry::kv
  bool direct_attention = false;                            // of MenuEntry::attention
  tenon::StepObserver on_step = {};
};

// The policies of an engine in the words of the command line.
struct EngineWords {
  std::string_view weights, head, device;

  friend bool operator==(const EngineWords&, const EngineWords&) = default;
};

// A cache in the words of the command line.
struct CacheWords {
  std::string_view cache;
  int block = 0;  // tokens per block of the paged cache; 0: the cache has no blocks
  tenon::CacheKind kind = tenon::CacheKind::paged16;
};

struct MenuEntry {
  EngineWords words;
  // The choices at run time.
  std::span<const CacheWords> caches;
  std::span<const std::string_view> kv, attention;
  std::unique_ptr<tenon::AnyEngine> (*make)(const tenon::ModelFiles& files, const EngineSettings& settings);
};

// All engines that were compiled in; the first is the default.
std::vector<MenuEntry> menu();

// Groups of engines, one translation unit engine_*.cpp each.
std::vector<MenuEntry> default_engine();  // replaces those below: TENON_MENU_DEFAULT
std::vector<MenuEntry> float32_engines();
std::vector<MenuEntry> float16_engines();
std::vector<MenuEntry> float8_engines();
std::vector<MenuEntry> int8_engines();
std::vector<MenuEntry> int4_engines();
std::vector<MenuEntry> twin_engines();  // replaces those above: TENON_MENU_TWINS
// With nvcc only (TENON_MENU_CUDA): engine_cuda*.cu.
std::vector<MenuEntry> cuda_engines();

// A weight format of the menu, and the bytes of a matrix in it.
struct WeightFormat {
  std::string_view name;
  std::size_t (*bytes)(tenon::Shape shape);
};
std::span<const WeightFormat> weight_formats();

// An element type of keys and values, and the bytes of one head's tile of 16 tokens in it.
struct KvFormat {
  std::string_view name;
  std::size_t (*tile_bytes)(const tenon::KvShape& shape);

  // Bytes of one token in all heads and layers.
  std::size_t token_bytes(const tenon::KvShape& shape) const {
    return tile_bytes(shape) / tenon::kTilePositions * static_cast<std::size_t>(shape.layers) *
           static_cast<std::size_t>(shape.heads);
  }
};
std::span<const KvFormat> kv_formats();

}  // namespace program
