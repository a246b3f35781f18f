// Experiment 10: one layer, y = W x + B (A x), where every row of a batch has its own adapter. Looped: one row after
// the other on all threads. Gathered and segmented: rows in parallel. All three give the same bits.
#include <tenon/tenon.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/example.h"

using namespace tenon;

// Adapters of rank `rank` for a layer [hidden, hidden], with random factors.
struct Adapters {
  std::vector<float> factors;
  std::vector<LowRank> updates;
  std::vector<AdapterSet> sets;
  const int begins[kSites + 1] = {0, 1, 1, 1, 1};

  Adapters(int count, int hidden, int rank) : factors(static_cast<std::size_t>(count * 2 * rank * hidden)) {
    for (std::size_t i = 0; i < factors.size(); ++i)
      factors[i] = static_cast<float>(static_cast<int>(mix64(i) % 2001) - 1000) / 8000;
    for (int i = 0; i < count; ++i) {
      const float* a = factors.data() + static_cast<std::ptrdiff_t>(i) * 2 * rank * hidden;
      updates.push_back(
          {a, a + static_cast<std::ptrdiff_t>(rank) * hidden, FactorType::float32, rank, 1.0f, 0, hidden});
    }
    for (const LowRank& update : updates) sets.push_back({&update, begins});
  }
};

// [layer]
template <class Policy>
void layer(Cpu& device, MatrixView<const float> x, const Float32::View& weight,
           const std::vector<const AdapterSet*>& of_row, LowRankUpdates<Cpu>& updates, MatrixView<float> y) {
  std::vector<SequenceRows> rows;
  for (int r = 0; r < x.rows; ++r) rows.push_back({0, r, 1, 0, r, 1, of_row[static_cast<std::size_t>(r)]});
  updates.arrange(device, Policy{}, BatchView{.sequences = rows.data(), .rows = x.rows, .sequence_count = x.rows});
  updates.multiply(device, LinearArgs<Float32::View>{.x = x, .weight = weight, .y = y}, 0, Site::qkv);
}
// [/layer]

// The adapter of row r: its own (distinct), a random one (random), or the one of all rows (shared).
int adapter_of(const std::string& rows, int r, int count) {
  if (rows == "shared") return 0;
  if (rows == "random")
    return static_cast<int>(mix64(static_cast<std::uint64_t>(r)) % static_cast<std::uint64_t>(count));
  if (rows != "distinct") throw std::runtime_error("--rows: distinct, random or shared");
  return r % count;
}

int main(int argc, char** argv) try {
  const example::Arguments arguments(
      argc, argv, {{"--samples", "500"}, {"--adapters", "64"}, {"--rows", "distinct"}, {"--threads", "0"}});
  const int samples = arguments.number("--samples"), count = arguments.number("--adapters");
  example::Csv csv(arguments.text("--csv"), "hidden,rank,batch,base_us,looped_us,gathered_us,segmented_us");
  Cpu device({.threads = arguments.number("--threads")});
  bool same = true;
  std::printf("hidden  rank  batch     base us   looped us  gathered us  segmented us\n");
  for (const auto& [hidden, rank] : {std::pair{10, 2}, std::pair{768, 16}}) {
    const Adapters adapters(count, hidden, rank);
    std::vector<float> values(static_cast<std::size_t>(hidden * hidden), 0.01f);
    std::vector<std::byte> packed(Float32::bytes({hidden, hidden}));
    Float32::encode({hidden, hidden}, 0, values, packed);
    const auto weight = Float32::view({hidden, hidden}, packed);
    for (int batch = 1; batch <= 64; batch *= 2) {
      const auto floats = static_cast<std::size_t>(batch * hidden);
      const std::vector<float> x(floats, 0.5f);
      std::vector<const AdapterSet*> of_row, none(static_cast<std::size_t>(batch));
      for (int r = 0; r < batch; ++r) {
        of_row.push_back(&adapters.sets[static_cast<std::size_t>(adapter_of(arguments.text("--rows"), r, count))]);
      }
      std::vector<std::vector<float>> y(4, std::vector<float>(floats));
      std::vector<double> microseconds[4];
      LowRankUpdates<Cpu> updates;
      const auto run = [&]<class Policy>(Policy, int which, const std::vector<const AdapterSet*>& rows) {
        example::Stopwatch watch;
        layer<Policy>(device, {x.data(), batch, hidden, hidden}, weight, rows, updates,
                      {y[static_cast<std::size_t>(which)].data(), batch, hidden, hidden});
        microseconds[which].push_back(1000 * watch.ms());
      };
      for (int i = 0; i < samples; ++i) {
        run(SegmentedLoRA{}, 0, none);
        run(LoopedLoRA{}, 1, of_row);
        run(GatheredLoRA{}, 2, of_row);
        run(SegmentedLoRA{}, 3, of_row);
      }
      double median[4];
      for (int i = 0; i < 4; ++i) {
        std::nth_element(microseconds[i].begin(), microseconds[i].begin() + samples / 2, microseconds[i].end());
        median[i] = microseconds[i][static_cast<std::size_t>(samples / 2)];
      }
      same = same && y[1] == y[2] && y[2] == y[3] && y[0] != y[1];
      std::printf("%6d %5d %6d %11.1f %11.1f %12.1f %13.1f\n", hidden, rank, batch, median[0], median[1], median[2],
                  median[3]);
      csv.row(hidden, rank, batch, median[0], median[1], median[2], median[3]);
    }
  }
  return example::verdict("looped, gathered and segmented the same to the bit", same);
} catch (const std::exception& error) {
  return example::failed(error);
}
