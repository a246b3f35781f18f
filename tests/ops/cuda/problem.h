// Shared by the tests of CUDA's ops: operands on both sides, and bitwise comparison.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "../../device/on_device.h"
#include "../helpers.h"
#include "tenon/tenon.cuh"

namespace tenon::test {

// A matrix with its gaps.
class DeviceMatrix {
 public:
  DeviceMatrix(Cuda& device, const Matrix& m)
      : rows_(m.rows),
        cols_(m.cols),
        stride_(m.stride),
        values_(device, std::span<const float>(m.values.data(), m.values.size())) {}

  MatrixView<float> view() const { return {values_.data(), rows_, cols_, stride_}; }
  MatrixView<float> view(int first, int rows) const { return view().rows_from(first, rows); }
  float* row(int r) const { return view().row(r); }
  Matrix host() const {
    Matrix m(rows_, cols_, stride_);
    const std::vector<float> all = values_.values();
    std::copy(all.begin(), all.end(), m.values.data());
    return m;
  }
  // Compares values and gaps.
  bool operator==(const Matrix& m) const {
    const std::vector<float> all = values_.values();
    return all.size() == m.values.size() && std::memcmp(all.data(), m.values.data(), all.size() * sizeof(float)) == 0;
  }

 private:
  int rows_, cols_, stride_;
  OnDevice<float> values_;
};

// A matrix in the format P.
template <class P>
class DevicePacked {
 public:
  DevicePacked(Cuda& device, const Packed<P>& packed)
      : shape_(packed.shape), stored_(device, std::span<const float>(packed.stored.data(), packed.stored.size())) {}
  typename P::View view() const {
    return P::view(shape_, std::as_bytes(std::span<const float>(stored_.data(), P::bytes(shape_) / sizeof(float))));
  }

 private:
  Shape shape_;
  OnDevice<float> stored_;
};

inline Cpu reference_cpu() { return Cpu({.threads = 1}); }

}  // namespace tenon::test
