#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "tenon/adapter/changes.h"
#include "tenon/checkpoint/peft_fields.h"
#include "tenon/core/error.h"
#include "tenon/core/finite.h"
#include "tenon/core/require.h"

namespace tenon::detail {

// Outputs of the matrix of a site, which may hold several linears.
TENON_INLINE int matrix_outputs(const AdapterSites& sites, int layer, Site site) {
  int outputs = 0;
  for (const AdapterSite& each : sites.sites)
    if (each.layer == layer && each.site == site) outputs = std::max(outputs, each.first_output + each.module.outputs);
  return outputs;
}

template <class Floats>
auto& at(Floats& floats, int i) {
  return floats[static_cast<std::size_t>(i)];
}

// Vectors begin at a cache line. Products read 16 elements at once, and prefetch the line of the first: with AVX-512
// half of what they read would come from the next line, which no thread has prefetched.
constexpr std::size_t kLine = 16;  // floats
inline std::size_t floats_to_hold(std::size_t count) { return count + kLine - 1; }

// Reads the vectors of one adapter into the arrays of its table.
class ChangeReader {
 public:
  // products: [layers * kSites]; norms: [layers * kNormSites]
  ChangeReader(const PeftAdapter& adapter, const AdapterSites& sites, const BaseWeights& base,
               std::vector<ProductChange>& products, std::vector<NormChange>& norms,
               std::deque<std::vector<float>>& vectors)
      : adapter_(adapter), sites_(sites), base_(base), products_(products), norms_(norms), vectors_(vectors) {
    if (!base.read_row) adapter.require_plain_updates("needs an engine on the CPU");
  }

  // The adapter's own tensor in place of the model's.
  void add(const PeftReplacement& each) {
    const auto found = std::find_if(sites_.vectors.begin(), sites_.vectors.end(),
                                    [&](const AdapterVector& v) { return v.tensor == each.name; });
    if (found == sites_.vectors.end()) throw Error(Error::Kind::internal, each.name, "is no vector of the model");
    const AdapterVector& v = *found;
    std::span<float> own;
    if (v.norm) {
      NormChange& norm = norms_[static_cast<std::size_t>(v.layer * kNormSites + static_cast<int>(*v.norm))];
      const NormChange model = base_.norm(v.layer, *v.norm);
      own = v.is_bias ? vector_at(norm.bias, v.size, model.bias, 0) : vector_at(norm.gain, v.size, model.gain, 1);
    } else {
      own = bias(v.layer, v.site, v.size);
    }
    const std::vector<float> stored = read(*each.tensor);
    for (const OutputRun& run : v.runs) {
      for (int i = 0; i < run.count; ++i) at(own, run.own + i) = (at(stored, run.stored + i) + v.plus) * v.times;
    }
  }

  // A vector of IA3. PEFT multiplies the outputs with the bias.
  void add(const PeftScale& each) {
    const AdapterSite& site = sites_.sites[each.module];
    const int outputs = matrix_outputs(sites_, site.layer, site.site);
    const std::vector<float> stored = read(*each.factors);
    ProductChange& change = product(site.layer, site.site);
    if (each.of_inputs) {
      if (site.module.outputs != outputs)
        refuse_peft("feedforward_modules", printable(site.module.path) +
                                               " is a part of a matrix here, whose other parts have the same inputs; "
                                               "scaled inputs of a part are not supported");
      std::ranges::copy(stored, vector_at(change.input_gain, site.module.inputs, nullptr, 1).begin());
      return;
    }
    const std::span<float> gains = vector_at(change.gain, outputs, nullptr, 1);
    const std::span<float> own =
        base_.bias(site.layer, site.site) ? bias(site.layer, site.site, outputs) : std::span<float>{};
    for (const OutputRun& run : site.runs) {
      for (int i = 0; i < run.count; ++i) {
        at(gains, run.own + i) = at(stored, run.stored + i);
        if (!own.empty()) at(own, run.own + i) *= at(stored, run.stored + i);
      }
    }
  }

  // The bias of lora_B and the gains of DoRA.
  void add(const PeftFactors& f) {
    const AdapterSite& site = sites_.sites[f.module];
    const int outputs = matrix_outputs(sites_, site.layer, site.site);
    if (f.b_bias) {
      const std::vector<float> stored = read(*f.b_bias);
      const std::span<float> own = bias(site.layer, site.site, outputs);
      for_outputs(site, [&](int from, int to) {
        at(own, to) = static_cast<float>(
            std::fma(f.scale, static_cast<double>(at(stored, from)), static_cast<double>(at(own, to))));
      });
    }
    if (!f.magnitude) return;
    const std::vector<float> magnitudes = read(*f.magnitude);
    std::vector<float> a(static_cast<std::size_t>(f.rank) * static_cast<std::size_t>(f.inputs));
    std::vector<float> b(static_cast<std::size_t>(f.outputs) * static_cast<std::size_t>(f.rank));
    adapter_.read_a_floats(f, a);
    adapter_.read_b_floats(f, b);
    const std::span<float> gains = vector_at(product(site.layer, site.site).gain, outputs, nullptr, 1);
    std::vector<float> row(static_cast<std::size_t>(f.inputs));
    for_outputs(site, [&](int from, int to) {
      base_.read_row(site.layer, site.site, to, row);
      const double norm = updated_norm(
          row, a, {b.data() + static_cast<std::ptrdiff_t>(from) * f.rank, static_cast<std::size_t>(f.rank)}, f.scale);
      at(gains, to) = static_cast<float>(static_cast<double>(at(magnitudes, from)) / norm);
    });
    if (!all_finite(gains))
      refuse_file(adapter_.tensors().where(*f.magnitude), "divided by the norm of its row is not finite");
  }

  // Changes of the embedding or the head, with tokens in order.
  TableChange table(const PeftTable& each, std::vector<std::int32_t>& tokens) {
    TableChange change;
    const int vocab = sites_.base.vocab, width = sites_.base.width;
    if (each.rows) {
      const std::vector<float> stored = read(*each.rows);
      change.count = each.tokens.empty() ? vocab : static_cast<int>(each.tokens.size());
      const std::span<float> rows = table_at(change.rows, stored.size(), stored.data(), 0);
      if (!each.tokens.empty()) {
        tokens = each.tokens;
        std::ranges::sort(tokens);
        change.tokens = tokens.data();
        for (std::size_t i = 0; i < each.tokens.size(); ++i)
          std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(i) * width, width,
                      rows.begin() + std::ptrdiff_t{change.own_row(each.tokens[i])} * width);
      }
    }
    if (each.update.a) add_update(each, change);
    return change;
  }

 private:
  void add_update(const PeftTable& each, TableChange& change) {
    const PeftFactors& f = each.update;
    const int vocab = sites_.base.vocab, width = sites_.base.width, rank = f.rank;
    std::vector<float> a(static_cast<std::size_t>(rank) * static_cast<std::size_t>(f.inputs));
    std::vector<float> b(static_cast<std::size_t>(f.outputs) * static_cast<std::size_t>(rank));
    adapter_.read_a_floats(f, a);
    adapter_.read_b_floats(f, b);
    if (!each.head) {
      a = transposed(a, rank, vocab);
      b = transposed(b, width, rank);
    }
    table_at(change.a, a.size(), a.data(), 0);
    table_at(change.b, b.size(), b.data(), 0);
    change.rank = rank;
    change.scale = static_cast<float>(f.scale);
    if (!f.magnitude) return;
    const std::vector<float> magnitudes = read(*f.magnitude);
    const std::vector<double> norms = each.head ? row_norms(change, f.scale) : column_norms(change, f.scale);
    const std::span<float> gains = table_at(change.gain, magnitudes.size(), nullptr, 1);
    for (std::size_t i = 0; i < gains.size(); ++i)
      gains[i] = static_cast<float>(static_cast<double>(magnitudes[i]) / norms[i]);
    if (!all_finite(gains)) refuse_file(adapter_.tensors().where(*f.magnitude), "divided by its norm is not finite");
  }

  // |W + scale * B A| of each row of the head.
  std::vector<double> row_norms(const TableChange& change, double scale) {
    const auto width = static_cast<std::size_t>(sites_.base.width), rank = static_cast<std::size_t>(change.rank);
    std::vector<float> row(width);
    std::vector<double> norms;
    for (int token = 0; token < sites_.base.vocab; ++token) {
      base_.read_table(true, token, row);
      norms.push_back(updated_norm(row, {change.a, rank * width},
                                   {change.b + static_cast<std::size_t>(token) * rank, rank}, scale));
    }
    return norms;
  }
  // Likewise of each column of the embedding.
  std::vector<double> column_norms(const TableChange& change, double scale) {
    const auto width = static_cast<std::size_t>(sites_.base.width);
    std::vector<float> row(width);
    std::vector<double> sums(width, 0);
    for (int token = 0; token < sites_.base.vocab; ++token) {
      base_.read_table(false, token, row);
      add_updates({change.b, static_cast<std::size_t>(change.rank) * width},
                  {change.a + std::ptrdiff_t{token} * change.rank, static_cast<std::size_t>(change.rank)}, width);
      for (std::size_t c = 0; c < width; ++c) {
        const double value = std::fma(scale, update_[c], static_cast<double>(row[c]));
        sums[c] = std::fma(value, value, sums[c]);
      }
    }
    for (double& sum : sums) sum = std::sqrt(sum);
    return sums;
  }

  // [cols, rows] of [rows, cols]
  static std::vector<float> transposed(const std::vector<float>& m, int rows, int cols) {
    std::vector<float> out(m.size());
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < cols; ++c)
        out[static_cast<std::size_t>(c) * static_cast<std::size_t>(rows) + static_cast<std::size_t>(r)] =
            m[static_cast<std::size_t>(r) * static_cast<std::size_t>(cols) + static_cast<std::size_t>(c)];
    }
    return out;
  }

  // Calls body(row of the file, row of the model's matrix).
  template <class Body>
  static void for_outputs(const AdapterSite& site, Body&& body) {
    for (const OutputRun& run : site.runs) {
      for (int i = 0; i < run.count; ++i) body(run.stored + i, run.own + i);
    }
  }

  // update_ = b A. a: [rank, width]; b: [rank]. Products of two floats are exact in double, so that compilers may
  // contract them with the sum.
  void add_updates(std::span<const float> a, std::span<const float> b, std::size_t width) {
    update_.assign(width, 0);
    for (std::size_t r = 0; r < b.size(); ++r) {
      const float* const of_rank = a.data() + r * width;
      const auto factor = static_cast<double>(b[r]);
      for (std::size_t k = 0; k < width; ++k) update_[k] += factor * static_cast<double>(of_rank[k]);
    }
  }

  // |row + scale * b A|. b: [rank]
  double updated_norm(std::span<const float> row, std::span<const float> a, std::span<const float> b, double scale) {
    add_updates(a, b, row.size());
    double sum = 0;
    for (std::size_t k = 0; k < row.size(); ++k) {
      const double value = std::fma(scale, update_[k], static_cast<double>(row[k]));
      sum = std::fma(value, value, sum);
    }
    return std::sqrt(sum);
  }

  std::vector<float> read(const TensorInfo& tensor) const {
    std::size_t count = 1;
    for (const std::uint64_t dim : tensor.shape) count *= static_cast<std::size_t>(dim);
    std::vector<float> values(count);
    adapter_.read_floats(tensor, values);
    return values;
  }

  // The adapter's vector at `pointer`. The first call makes it: the model's values, or `fill` where it has none.
  std::span<float> vector_at(const float*& pointer, int size, const float* model, float fill) {
    return table_at(pointer, static_cast<std::size_t>(size), model, fill);
  }
  std::span<float> table_at(const float*& pointer, std::size_t count, const float* model, float fill) {
    if (!pointer) {
      std::vector<float>& made = vectors_.emplace_back(floats_to_hold(count), fill);
      float* const begin =
          made.data() + (kLine - reinterpret_cast<std::uintptr_t>(made.data()) / sizeof(float) % kLine) % kLine;
      if (model) std::copy_n(model, count, begin);
      pointer = begin;
    }
    return {const_cast<float*>(pointer), count};  // of vectors_
  }
  ProductChange& product(int layer, Site site) {
    return products_[static_cast<std::size_t>(layer * kSites + static_cast<int>(site))];
  }
  std::span<float> bias(int layer, Site site, int size) {
    return vector_at(product(layer, site).bias, size, base_.bias(layer, site), 0);
  }

  const PeftAdapter& adapter_;
  const AdapterSites& sites_;
  const BaseWeights& base_;
  std::vector<ProductChange>& products_;
  std::vector<NormChange>& norms_;
  std::deque<std::vector<float>>& vectors_;
  std::vector<double> update_;  // [inputs]: b A
};

}  // namespace tenon::detail

namespace tenon {

TENON_INLINE ChangeTable::ChangeTable(const PeftAdapter& adapter, const AdapterSites& sites, const BaseWeights& base) {
  if (adapter.others().size() == (adapter.classifier() ? 1u : 0u)) return;  // heads run on the host
  const auto layers = static_cast<std::size_t>(std::max(sites.layers, 1));
  products_.resize(layers * kSites);
  norms_.resize(layers * kNormSites);
  detail::ChangeReader reader(adapter, sites, base, products_, norms_, vectors_);
  for (const PeftReplacement& each : adapter.replacements()) reader.add(each);  // first: scales apply to these biases
  for (const PeftScale& each : adapter.scales()) reader.add(each);
  for (const PeftFactors& each : adapter.factors()) reader.add(each);
  for (const PeftTable& each : adapter.tables())
    (each.head ? changes_.head : changes_.embedding) = reader.table(each, tokens_.emplace_back());
  const auto changes = [](const ProductChange& each) { return each.input_gain || each.gain || each.bias; };
  if (std::any_of(products_.begin(), products_.end(), changes)) changes_.products = products_.data();
  if (std::any_of(norms_.begin(), norms_.end(), [](const NormChange& each) { return each.gain || each.bias; }))
    changes_.norms = norms_.data();
}

TENON_INLINE std::size_t ChangeTable::bytes() const {
  std::size_t floats = 0;
  for (const std::vector<float>& each : vectors_) floats += each.size();
  return floats * sizeof(float);
}

TENON_INLINE std::size_t ChangeTable::bytes_of(const PeftAdapter& adapter, const AdapterSites& sites) {
  enum Vector { input_gain, gain, bias, norm_gain, norm_bias };
  std::map<std::pair<Vector, int>, int> sizes;  // by kind and place
  const auto place = [](int layer, Site site) { return layer * kSites + static_cast<int>(site); };
  const auto add_outputs = [&](Vector kind, const AdapterSite& site) {
    sizes[{kind, place(site.layer, site.site)}] = detail::matrix_outputs(sites, site.layer, site.site);
  };
  for (const PeftReplacement& each : adapter.replacements()) {
    for (const AdapterVector& v : sites.vectors) {
      if (v.tensor != each.name) continue;
      if (v.norm)
        sizes[{v.is_bias ? norm_bias : norm_gain, v.layer * kNormSites + static_cast<int>(*v.norm)}] = v.size;
      else
        sizes[{bias, place(v.layer, v.site)}] = v.size;
    }
  }
  for (const PeftScale& each : adapter.scales()) {
    const AdapterSite& site = sites.sites[each.module];
    if (each.of_inputs) {
      sizes[{input_gain, place(site.layer, site.site)}] = site.module.inputs;
    } else {
      add_outputs(gain, site);
      add_outputs(bias, site);  // the model may have one
    }
  }
  for (const PeftFactors& each : adapter.factors()) {
    if (each.magnitude) add_outputs(gain, sites.sites[each.module]);
    if (each.b_bias) add_outputs(bias, sites.sites[each.module]);
  }
  std::size_t floats = 0;
  const auto count = [&](std::size_t elements) { floats += detail::floats_to_hold(elements); };
  for (const PeftTable& each : adapter.tables()) {
    const auto vocab = static_cast<std::size_t>(sites.base.vocab), width = static_cast<std::size_t>(sites.base.width);
    const auto rank = static_cast<std::size_t>(each.update.rank);
    if (each.rows) count((each.tokens.empty() ? vocab : each.tokens.size()) * width);
    if (rank > 0) count(rank * vocab), count(rank * width);
    if (each.update.magnitude) count(each.head ? vocab : width);
  }
  for (const auto& [key, size] : sizes) count(static_cast<std::size_t>(size));
  return floats * sizeof(float);
}

}  // namespace tenon
