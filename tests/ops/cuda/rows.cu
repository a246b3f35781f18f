// Ops on single rows have the CPU's bits.
#define BOOST_TEST_MODULE tenon ops cuda rows
#include <boost/test/unit_test.hpp>

#include <numeric>

#include "problem.h"

using namespace tenon;
using namespace tenon::test;

BOOST_TEST_GLOBAL_FIXTURE(NeedsCuda);

namespace {

// op(device, x, y) on both sides. cols: columns of y; 0: as many as x.
template <class Op>
void check_rows(int rows, int width, int cols, Op&& op, const char* what) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  const Matrix x = random_matrix(rows, width, 1, width + 3, 8.0f);
  Matrix y(rows, cols, cols + 2);
  const DeviceMatrix device_x(cuda, x), device_y(cuda, y);
  op(cpu, x.view(), y.view());
  op(cuda, device_x.view(), device_y.view());
  BOOST_TEST((device_y == y), what << ": " << rows << " rows of " << width);
}

}  // namespace

BOOST_AUTO_TEST_CASE(norms) {
  Cuda cuda;
  for (const int width : {1, 15, 16, 77, 768, 1600, 5000}) {
    const Matrix gain = random_matrix(1, width, 2), bias = random_matrix(1, width, 3);
    const DeviceMatrix device_gain(cuda, gain), device_bias(cuda, bias);
    for (const int rows : {1, 7, 8, 9, 64}) {
      const auto of = [&](auto& device, const Matrix& host, const DeviceMatrix& there) {
        return std::is_same_v<std::decay_t<decltype(device)>, Cpu> ? host.row(0) : there.row(0);
      };
      check_rows(
          rows, width, width,
          [&](auto& device, auto x, auto y) {
            layer_norm(device,
                       LayerNormArgs{x, of(device, gain, device_gain), of(device, bias, device_bias), 1e-5f, y});
          },
          "layer_norm");
      check_rows(
          rows, width, width,
          [&](auto& device, auto x, auto y) {
            rms_norm(device, RmsNormArgs{x, of(device, gain, device_gain), 1e-5f, y});
          },
          "rms_norm");
    }
  }
}

// Like an embedding's norm. Rows of 5,000 are read in place.
BOOST_AUTO_TEST_CASE(norms_in_place) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  for (const int width : {768, 5000}) {
    const Matrix gain = random_matrix(1, width, 2), bias = random_matrix(1, width, 3);
    const DeviceMatrix device_gain(cuda, gain), device_bias(cuda, bias);
    Matrix x = random_matrix(9, width, 1);
    const DeviceMatrix there(cuda, x);
    layer_norm(cpu, LayerNormArgs{x.view(), gain.row(0), bias.row(0), 1e-5f, x.view()});
    layer_norm(cuda, LayerNormArgs{there.view(), device_gain.row(0), device_bias.row(0), 1e-5f, there.view()});
    BOOST_TEST((there == x), "layer_norm, " << width);
    rms_norm(cpu, RmsNormArgs{x.view(), gain.row(0), 1e-5f, x.view()});
    rms_norm(cuda, RmsNormArgs{there.view(), device_gain.row(0), 1e-5f, there.view()});
    BOOST_TEST((there == x), "rms_norm, " << width);
  }
}

// Rounded for the next product: the roundings of the floats, zeros after the row, whatever the kernel, which depends on
// the number of rows and the width.
BOOST_AUTO_TEST_CASE(rounded_norms) {
  Cuda cuda;
  for (const int width : {1, 15, 77, 768, 1600, 5000}) {
    const DeviceMatrix gain(cuda, random_matrix(1, width, 2)), bias(cuda, random_matrix(1, width, 3));
    for (const int rows : {1, 9, 129, 200}) {
      const DeviceMatrix x(cuda, random_matrix(rows, width, 1, width + 3, 8.0f)),
          floats(cuda, Matrix(rows, width, width));
      const OnDevice<bfloat16> memory(
          cuda, std::vector<bfloat16>(OperandTiles<bfloat16>::elements(rows, width), bfloat16(NAN)));
      const OperandTiles<bfloat16> tiles{memory.data(), rows, width}, host{nullptr, rows, width};
      const auto check = [&](const char* what) {
        const Matrix expected = floats.host();
        const std::vector<bfloat16> found = memory.values();
        for (int r = 0; r < rows; ++r) {
          for (int c = 0; c < chunk_count(width) * kChunkColumns; ++c) {
            const bfloat16 value = c < width ? bfloat16(expected.row(r)[c]) : bfloat16(0.0f);
            BOOST_TEST_REQUIRE(found[static_cast<std::size_t>(host.at(r, c))].bits == value.bits,
                               what << ", " << rows << " rows of " << width << ": " << r << ", " << c);
          }
        }
      };
      layer_norm(cuda, LayerNormArgs{x.view(), gain.row(0), bias.row(0), 1e-5f, floats.view()});
      layer_norm(cuda, LayerNormArgsOf<OperandTiles<bfloat16>>{x.view(), gain.row(0), bias.row(0), 1e-5f, tiles});
      check("layer_norm");
      rms_norm(cuda, RmsNormArgs{x.view(), gain.row(0), 1e-5f, floats.view()});
      rms_norm(cuda, RmsNormArgsOf<OperandTiles<bfloat16>>{x.view(), gain.row(0), 1e-5f, tiles});
      check("rms_norm");
    }
  }
}

BOOST_AUTO_TEST_CASE(clamps) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  for (const int width : {1, 77, 5000}) {
    Matrix x = random_matrix(9, width, 1);
    const DeviceMatrix there(cuda, x);
    clamp(cpu, ClampArgs{x.view(), 0.5f});
    clamp(cuda, ClampArgs{there.view(), 0.5f});
    BOOST_TEST((there == x), width);
  }
}

BOOST_AUTO_TEST_CASE(gates) {
  for (const Activation activation : {Activation::silu, Activation::gelu, Activation::gelu_new, Activation::relu,
                                      Activation::quick_gelu, Activation::relu2}) {
    for (const int n : {1, 16, 33, 500}) {
      check_rows(
          9, 2 * n, n,
          [&](auto& device, auto x, auto y) {
            gate(device, GateArgs{x, activation, y});
          },
          "gate");
    }
  }
}

BOOST_AUTO_TEST_CASE(rotary_positions) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  for (const int head_dim : {2, 20, 64, 128}) {
    constexpr int rows = 11, heads = 6, kv_heads = 2;
    std::vector<int> positions(rows);
    for (int r = 0; r < rows; ++r) positions[static_cast<std::size_t>(r)] = r * r * 997;
    const Matrix frequencies = random_matrix(rows, head_dim / 2, 4);
    const Matrix angles(rows, head_dim, head_dim + 1), q = random_matrix(rows, heads * head_dim, 5),
                                                       k = random_matrix(rows, kv_heads * head_dim, 6);
    const OnDevice<int> there(cuda, positions);
    const DeviceMatrix f(cuda, frequencies), a(cuda, angles), device_q(cuda, q), device_k(cuda, k);
    const auto run = [&](auto& device, const int* at, const float* turns, auto angles_view, auto q_view, auto k_view) {
      BatchView batch;
      batch.positions = at;
      batch.rows = rows;
      rotary_angles(device, RotaryAnglesArgs{batch, turns, head_dim / 2, angles_view});
      rotate(device, RotateArgs{angles_view, q_view, k_view, heads, kv_heads, head_dim});
    };
    run(cpu, positions.data(), frequencies.row(0), angles.view(), q.view(), k.view());
    run(cuda, there.data(), f.row(0), a.view(), device_q.view(), device_k.view());
    BOOST_TEST((a == angles && device_q == q && device_k == k), "head_dim " << head_dim);
  }
}

using Formats = std::tuple<Float32, BFloat16, Float16, Float8<E4M3>, ZeroPointInt8, GroupInt4, GroupInt8, NormalFloat4>;

BOOST_AUTO_TEST_CASE_TEMPLATE(embedding, P, Formats) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  const Packed<P> table(random_matrix(50, 77, 1));
  const DevicePacked<P> device_table(cuda, table);
  const Matrix positions_table = random_matrix(9, 77, 2);
  const DeviceMatrix device_positions(cuda, positions_table);
  const std::vector<TokenId> tokens = {3, 49, 0, 17, 17};
  const std::vector<int> positions = {0, 8, 3, 4, 5};
  const OnDevice<TokenId> device_tokens(cuda, tokens);
  const OnDevice<int> device_at(cuda, positions);
  for (const bool learned : {false, true}) {
    Matrix x(5, 77, 80);
    const DeviceMatrix device_x(cuda, x);
    const auto run = [&](auto& device, const TokenId* ids, const int* at, auto view, const float* p, auto out) {
      BatchView batch;
      batch.tokens = ids;
      batch.positions = at;
      batch.rows = 5;
      embed(device, EmbedArgs<typename P::View>{batch, view, learned ? p : nullptr, out});
    };
    run(cpu, tokens.data(), positions.data(), table.view(), positions_table.row(0), x.view());
    run(cuda, device_tokens.data(), device_at.data(), device_table.view(), device_positions.row(0), device_x.view());
    BOOST_TEST((device_x == x), "learned " << learned);
  }
}

BOOST_AUTO_TEST_CASE(rows_are_gathered_in_place) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  const Matrix x = random_matrix(40, 77, 1, 80), q = random_matrix(40, 200, 2, 210);
  const DeviceMatrix device_x(cuda, x), device_q(cuda, q);
  const std::vector<int> rows = {0, 3, 4, 11, 12, 39};
  const OnDevice<int> device_rows(cuda, rows);
  gather_rows(cpu, GatherRowsArgs{rows.data(), 6, x.view(), q.view()});
  gather_rows(cuda, GatherRowsArgs{device_rows.data(), 6, device_x.view(), device_q.view()});
  BOOST_TEST((device_x == x && device_q == q));
}

// One copy after another: a block may be the source of a later copy.
BOOST_AUTO_TEST_CASE(blocks_are_copied_in_order) {
  Cpu cpu = reference_cpu();
  Cuda cuda;
  constexpr std::size_t kLayers = 3, kBlocks = 7, kWords = 300;
  std::vector<float> storage(kLayers * kBlocks * kWords);
  std::iota(storage.begin(), storage.end(), 0.0f);
  const OnDevice<float> there(cuda, storage);
  const std::vector<BlockCopy> copies = {{0, 3}, {3, 5}, {5, 1}, {1, 0}};
  const BlockLayout layout{kBlocks, kWords * sizeof(float)};
  cuda.begin_step();
  copy_blocks(cpu, CopyBlocksArgs{reinterpret_cast<std::byte*>(storage.data()), kLayers, layout, copies});
  copy_blocks(cuda, CopyBlocksArgs{reinterpret_cast<std::byte*>(there.data()), kLayers, layout, copies});
  BOOST_TEST((there.values() == storage));
}
