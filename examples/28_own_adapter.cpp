// An adapter of your own, in Eigen: the best low-rank approximation of an adapter's updates (Eckart and Young, 1936).
// It is written in PEFT's format and served together with the original.
#include <tenon/eigen.h>
#include <tenon/io/json.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include <Eigen/QR>
#include <Eigen/SVD>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/example.h"

using Matrix = tenon::EigenMatrix<float>;

// [svd]
// The QR factors of m [n, r]: Q [n, r] with orthonormal columns and R [r, r].
std::pair<Matrix, Matrix> factorised(const Matrix& m) {
  const Eigen::HouseholderQR<Matrix> qr(m);
  return {qr.householderQ() * Matrix::Identity(m.rows(), m.cols()),
          qr.matrixQR().topRows(m.cols()).triangularView<Eigen::Upper>()};
}

// The best approximation of b a with this rank, as factors B [outputs, rank] and A [rank, inputs]. For b = Q R and
// a^T = P S, the singular values of b a [outputs, inputs] are those of the small matrix R S^T [r, r].
std::pair<Matrix, Matrix> truncated(const Matrix& b, const Matrix& a, int rank) {
  const auto [left, r] = factorised(b);
  const auto [right, s] = factorised(a.transpose());
  const Eigen::JacobiSVD<Matrix> svd(r * s.transpose(), Eigen::ComputeFullU | Eigen::ComputeFullV);
  const Matrix root = svd.singularValues().head(rank).cwiseSqrt().asDiagonal();  // [rank, rank]
  return {left * svd.matrixU().leftCols(rank) * root, (right * svd.matrixV().leftCols(rank) * root).transpose()};
}
// [/svd]

// [write]
// Writes all updates of an adapter, truncated to this rank, as a new adapter.
void write_truncated(const tenon::PeftAdapter& adapter, const std::vector<tenon::PeftModule>& modules, int rank,
                     const std::filesystem::path& folder) {
  std::vector<tenon::TensorPlan> plans;
  std::vector<Matrix> factors;
  const auto add = [&](const std::string& name, Matrix factor) {
    const auto rows = static_cast<std::uint64_t>(factor.rows()), cols = static_cast<std::uint64_t>(factor.cols());
    plans.push_back({"base_model.model." + name, tenon::DType::f32, {rows, cols}});
    factors.push_back(std::move(factor));
  };
  for (const tenon::PeftFactors& each : adapter.factors()) {
    const tenon::PeftModule& module = modules[each.module];
    Matrix a(each.rank, module.inputs), b(module.outputs, each.rank);
    adapter.read_floats(*each.a, tenon::span_of(a));
    adapter.read_floats(*each.b, tenon::span_of(b));
    auto [left, right] = truncated(static_cast<float>(each.scale) * b, a, rank);
    add(module.path + ".lora_A.weight", std::move(right));
    add(module.path + ".lora_B.weight", std::move(left));
  }
  std::filesystem::create_directories(folder);
  tenon::SafetensorsWriter writer(folder / "adapter_model.safetensors", plans, {});
  for (std::size_t i = 0; i < plans.size(); ++i)
    writer.write(plans[i].name, 0, std::as_bytes(tenon::span_of(factors[i])));
  writer.finish();
  const tenon::Json config{{"peft_type", "LORA"},
                           {"r", rank},
                           {"lora_alpha", rank},  // scale = lora_alpha / r = 1
                           {"target_modules", adapter.config().target_modules}};
  std::ofstream(folder / "adapter_config.json") << config << '\n';
}
// [/write]

int main(int argc, char** argv) try {
  const example::Arguments arguments(argc, argv, {{"--adapter", "weather"}, {"--prompt", "The weather"}});
  const std::string &model = arguments.text("--model"), whole = model + "/adapters/" + arguments.text("--adapter");
  const auto files = tenon::load_checkpoint(model);
  const auto spec = tenon::Gpt2::tensors(tenon::Gpt2::configure(*files.config));
  const auto modules = tenon::adapter_sites(spec, tenon::Gpt2::name_prefix).modules();
  const auto adapter = tenon::PeftAdapter::open(whole, modules);
  const auto scratch = std::filesystem::temp_directory_path() / ("tenon-svd-" + std::to_string(::getpid()));
  const auto prompt = files.tokenizer->encode(arguments.text("--prompt"));
  const tenon::Options options{.max_new_tokens = 12, .logits_at = {static_cast<int>(prompt.size()) - 1}};
  std::vector<tenon::Request> requests = {{.input_ids = prompt, .adapters = {{whole}}, .options = options}};
  for (const int rank : {1, 4, adapter.config().r}) {
    const std::filesystem::path folder = scratch / std::to_string(rank);
    write_truncated(adapter, modules, rank, folder);
    requests.push_back({.input_ids = prompt, .adapters = {{folder.string()}}, .options = options});
  }
  tenon::Engine<tenon::Gpt2> engine{files};
  const auto answers = engine.complete(requests);
  std::filesystem::remove_all(scratch);
  std::vector<float> differences;
  for (const tenon::Completion& each : answers) {
    if (!each.error.empty()) throw std::runtime_error(each.error);
    const std::span<const float> logits(each.scores->logits[0].second), first(answers[0].scores->logits[0].second);
    differences.push_back((tenon::as_eigen(logits) - tenon::as_eigen(first)).cwiseAbs().maxCoeff());
    std::printf("largest difference of a logit %9.2g   %s%s\n", static_cast<double>(differences.back()),
                arguments.text("--prompt").c_str(), each.text.c_str());
  }
  return example::verdict("the higher the rank the nearer, and the full rank is the adapter itself",
                          differences[1] > differences[2] && differences[2] > 10 * differences[3] &&
                              differences[3] < 1e-3f && answers[3].ids == answers[0].ids);
} catch (const std::exception& error) {
  return example::failed(error);
}
