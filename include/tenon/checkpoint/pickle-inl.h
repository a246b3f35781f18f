#pragma once
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "tenon/checkpoint/pickle.h"
#include "tenon/core/error.h"
#include "tenon/core/require.h"

namespace tenon::detail {

// Runs the instructions of a pickle on a stack of indices. Numbers and letters of the instructions: pickletools.py.
class PickleReader {
 public:
  PickleReader(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  Pickle read() {
    for (;;) {
      const auto code = static_cast<unsigned char>(take(1)[0]);
      if (code == '.') break;
      if (!push_constant(code) && !build(code) && !memo(code)) refuse_code(code);
    }
    pickle_.root = pop();
    pickle_.bytes = at_;
    return std::move(pickle_);
  }

 private:
  using Kind = PickleValue::Kind;
  static_assert(std::endian::native == std::endian::little, "tenon: pickles are read on little-endian machines only");

  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(Error::Kind::invalid_file, where_, why + " at byte " + std::to_string(at_) + ": no sound pickle");
  }
  [[noreturn]] void refuse_code(unsigned char code) const {
    throw Error(Error::Kind::unsupported, where_,
                "has the pickle instruction " + std::to_string(code) + " at byte " + std::to_string(at_ - 1) +
                    ", which is not supported");
  }

  // ---- bytes

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - at_) refuse("ends in the middle of an instruction");
    const std::string_view out = bytes_.substr(at_, static_cast<std::size_t>(count));
    at_ += out.size();
    return out;
  }
  std::string_view line() {
    const auto end = bytes_.find('\n', at_);
    if (end == bytes_.npos) refuse("ends in the middle of a line");
    const std::string_view out = take(end - at_);
    take(1);
    return out;
  }
  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  // A signed number of `size` bytes, the least significant first.
  PickleValue long_number(std::size_t size) {
    const std::string_view digits = take(size);
    if (size > sizeof(std::int64_t)) return {.kind = Kind::large, .text = digits};
    std::uint64_t value = size > 0 && (digits.back() & 0x80) != 0 ? ~std::uint64_t{0} : 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    return {.kind = Kind::integer, .number = static_cast<std::int64_t>(value)};
  }

  // ---- stack and values

  bool push(PickleValue value) {
    if (pickle_.values.size() >= kMaxPickleValues) refuse("has more than 4000000 values");
    stack_.push_back(static_cast<std::uint32_t>(pickle_.values.size()));
    pickle_.values.push_back(std::move(value));
    return true;
  }
  bool push_index(std::uint32_t index) {
    stack_.push_back(index);
    return true;
  }
  // Values under the last mark stay where they are.
  std::uint32_t pop() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("takes a value that is not there");
    const std::uint32_t index = stack_.back();
    stack_.pop_back();
    return index;
  }
  std::vector<std::uint32_t> pop_many(std::size_t count) {
    std::vector<std::uint32_t> out(count);
    while (count > 0) out[--count] = pop();
    return out;
  }
  std::vector<std::uint32_t> pop_to_mark() {
    if (marks_.empty()) refuse("takes a mark that is not there");
    std::vector<std::uint32_t> out(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()), stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return out;
  }
  PickleValue& top() {
    if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("changes a value that is not there");
    return pickle_.values[stack_.back()];
  }

  // ---- instructions

  bool push_constant(unsigned char code) {
    switch (code) {
      case 'N':
        return push({.kind = Kind::none});
      case 0x88:
      case 0x89:
        return push({.kind = Kind::boolean, .number = code == 0x88});
      case 'J':
        return push({.kind = Kind::integer, .number = number<std::int32_t>()});
      case 'K':
        return push({.kind = Kind::integer, .number = number<std::uint8_t>()});
      case 'M':
        return push({.kind = Kind::integer, .number = number<std::uint16_t>()});
      case 0x8a:
        return push(long_number(number<std::uint8_t>()));
      case 'G':
        take(sizeof(double));
        return push({.kind = Kind::real});
      case 'X':
        return push({.kind = Kind::text, .text = take(number<std::uint32_t>())});
      case 0x8c:
      case 'U':
        return push({.kind = Kind::text, .text = take(number<std::uint8_t>())});
      case 'T':
        return push({.kind = Kind::text, .text = take(number<std::uint32_t>())});
      case 0x8d:
        return push({.kind = Kind::text, .text = take(number<std::uint64_t>())});
      case 'c': {
        const std::string_view module = line();
        return push({.kind = Kind::global, .text = module, .name = line()});
      }
      default:
        return false;
    }
  }

  bool build(unsigned char code) {
    switch (code) {
      case ')':
        return push({.kind = Kind::tuple});
      case ']':
        return push({.kind = Kind::list});
      case '}':
        return push({.kind = Kind::dict});
      case '(':
        if (marks_.size() >= kMaxPickleValues) refuse("has more than 4000000 marks");
        marks_.push_back(stack_.size());
        return true;
      case 't':
        return push({.kind = Kind::tuple, .items = pop_to_mark()});
      case 0x85:
      case 0x86:
      case 0x87:
        return push({.kind = Kind::tuple, .items = pop_many(code - 0x84u)});
      case 'a':
        return append(pop_many(1));
      case 'e':
        return append(pop_to_mark());
      case 's':
        return set_entries(pop_many(2));
      case 'u':
        return set_entries(pop_to_mark());
      case 0x93:
        return push_named_global();
      case 'Q':
        return push({.kind = Kind::persistent, .items = pop_many(1)});
      case 'R':
        return push_call();
      case 'b':
        pop();
        top().has_state = true;
        return true;
      case '0':
        pop();
        return true;
      default:
        return false;
    }
  }

  bool append(const std::vector<std::uint32_t>& items) {
    PickleValue& list = top();
    if (list.kind != Kind::list) refuse("appends to what is no list");
    list.items.insert(list.items.end(), items.begin(), items.end());
    return true;
  }
  bool set_entries(const std::vector<std::uint32_t>& entries) {
    PickleValue& dict = top();
    if (entries.size() % 2 != 0) refuse("sets a key without a value");
    if (dict.kind != Kind::dict && dict.kind != Kind::call) refuse("sets an entry of what is no dict");
    dict.entries.insert(dict.entries.end(), entries.begin(), entries.end());
    return true;
  }
  bool push_named_global() {
    const std::vector<std::uint32_t> names = pop_many(2);
    const PickleValue &module = pickle_.at(names[0]), &name = pickle_.at(names[1]);
    if (module.kind != Kind::text || name.kind != Kind::text) refuse("has a global whose name is no text");
    return push({.kind = Kind::global, .text = module.text, .name = name.text});
  }
  bool push_call() {
    std::vector<std::uint32_t> call = pop_many(2);
    if (pickle_.at(call[0]).kind != Kind::global || pickle_.at(call[1]).kind != Kind::tuple)
      refuse("has a call without a function and a tuple of arguments");
    return push({.kind = Kind::call, .items = std::move(call)});
  }

  // Values that were numbered, so that they can be used again.
  bool memo(unsigned char code) {
    switch (code) {
      case 0x80:
        if (number<std::uint8_t>() > 5) refuse("is of a protocol above 5");
        return true;
      case 0x95:  // the length of a frame
        take(sizeof(std::uint64_t));
        return true;
      case 'q':
        return keep(number<std::uint8_t>());
      case 'r':
        return keep(number<std::uint32_t>());
      case 0x94:
        return keep(memo_.size());
      case 'h':
        return push_kept(number<std::uint8_t>());
      case 'j':
        return push_kept(number<std::uint32_t>());
      default:
        return false;
    }
  }

  bool keep(std::size_t number) {
    top();
    if (number > kMaxPickleValues) refuse("numbers more than 4000000 values");
    if (number >= memo_.size()) memo_.resize(number + 1);
    memo_[number] = stack_.back();
    return true;
  }
  bool push_kept(std::size_t number) {
    if (number >= memo_.size() || !memo_[number]) refuse("uses a value that was not numbered");
    return push_index(*memo_[number]);
  }

  std::string_view bytes_;
  const std::string& where_;
  std::size_t at_ = 0;
  Pickle pickle_;
  std::vector<std::uint32_t> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<std::optional<std::uint32_t>> memo_;
};

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE Pickle read_pickle(std::string_view bytes, const std::string& where) {
  if (bytes.size() > kMaxPickleBytes) bytes = bytes.substr(0, kMaxPickleBytes);
  return detail::PickleReader(bytes, where).read();
}

}  // namespace tenon
