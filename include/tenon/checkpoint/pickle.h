// Python's pickle format as data. A pickle is a program that builds objects and may call any function of Python. Here
// its instructions only build a description: a call is a value with the names of its function and its arguments, and
// nothing is ever called. Protocols 2 to 5, without the instructions that torch.save never writes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/core/require.h"

namespace tenon {

inline constexpr std::size_t kMaxPickleBytes = 64u << 20;
inline constexpr std::size_t kMaxPickleValues = 4'000'000;

/// A value of a pickle. Members that its kind does not use are empty.
struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,     ///< number
    integer,     ///< number
    large,       ///< an integer of more than 64 bits; text: its bytes, the least significant first
    real,        ///< its value is not kept
    text,        ///< text
    list,        ///< items
    tuple,       ///< items
    dict,        ///< entries
    global,      ///< text, name: `text.name` of Python
    persistent,  ///< items[0]: what describes an object outside the pickle
    call         ///< items[0](*items[1]), and then the entries that were set
  };
  Kind kind = Kind::none;
  bool has_state = false;  ///< attributes were set; they are not kept
  std::int64_t number = 0;
  std::string_view text = {}, name = {};
  std::vector<std::uint32_t> items = {};    ///< indices of values
  std::vector<std::uint32_t> entries = {};  ///< indices of key, value, key, value, ...
};

/// A pickle that was read. Values refer to its bytes, which must stay.
struct Pickle {
  std::vector<PickleValue> values;
  std::uint32_t root = 0;
  std::size_t bytes = 0;  ///< its length; more may follow

  const PickleValue& at(std::uint32_t index) const { return values[index]; }
};

/// Reads the pickle at the start of `bytes`. where: for errors. Errors: invalid_file if it breaks the format or the
/// limits above; unsupported for an instruction that is not read.
Pickle read_pickle(std::string_view bytes, const std::string& where);

}  // namespace tenon

#ifndef TENON_COMPILED
#include "tenon/checkpoint/pickle-inl.h"
#endif
