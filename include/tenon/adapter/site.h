// Where an adapter meets the model: the linears of the checkpoint that it may update, and the matrices they became.
#pragma once
#include <span>
#include <vector>

#include "tenon/checkpoint/peft.h"
#include "tenon/core/low_rank.h"

namespace tenon {

// Consecutive outputs of a linear of the checkpoint, and where the model's matrix has them.
struct OutputRun {
  int stored = 0;  // in the linear
  int own = 0;     // in the matrix
  int count = 0;
};

struct AdapterSite {
  PeftModule module;  // what PEFT calls it, and its sizes
  int layer = 0;
  Site site = Site::qkv;
  int first_output = 0;  // of the matrix: the linear's outputs are first_output .. first_output + module.outputs - 1
  std::vector<OutputRun> runs;  // all of them, ascending in `own`
};

// All that adapters may update of a model.
struct AdapterSites {
  int layers = 0;
  std::vector<AdapterSite> sites;
  PeftBase base = {};  // what an adapter's file may hold copies of

  std::vector<PeftModule> modules() const {
    std::vector<PeftModule> all;
    for (const AdapterSite& site : sites) all.push_back(site.module);
    return all;
  }
};

}  // namespace tenon
