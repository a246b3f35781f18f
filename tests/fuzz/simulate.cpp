// Runs seeds of the simulation, for scripts/simulate and scripts/check-mutations.
//   simulate [--seeds N] [--first S]   N seeds from S on; stops at the first that breaks an invariant
//   simulate --seed S                  one seed, with a trace of every step
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

#include "../schedule/swarm.h"

namespace {

std::uint64_t seed = 0;

// Prints the seed on a crash or a hang. It uses nothing that the signal may have interrupted.
extern "C" void name_the_seed(int signal) {
  char text[] = "seed                     : ends by a signal (a crash, or ALRM: it hangs)\n";
  std::uint64_t rest = seed;
  char* digit = text + 24;
  do *digit-- = static_cast<char>('0' + rest % 10);
  while ((rest /= 10) > 0);
  if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) _exit(2);
  _exit(signal == SIGALRM ? 3 : 2);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1, seeds = 2000;
  tenon::testing::SimulationLog log;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (i + 1 == argc || (option != "--seeds" && option != "--first" && option != "--seed")) {
      std::cerr << "usage: simulate [--seeds N] [--first S] | --seed S\n";
      return 64;
    }
    const std::uint64_t value = std::strtoull(argv[++i], nullptr, 10);
    (option == "--seeds" ? seeds : first) = value;
    if (option == "--seed") seeds = 1, log.trace = &std::cout;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGALRM}) std::signal(signal, name_the_seed);
  const auto begin = std::chrono::steady_clock::now();
  for (seed = first; seed < first + seeds; ++seed) {
    alarm(10);
    const auto broken = tenon::swarm::run(seed, log);
    for (const auto& violation : broken) std::cout << violation << std::endl;
    if (!broken.empty()) return 1;
  }
  const auto& c = log.counts;
  std::cout << seeds << " seeds, " << c.requests << " requests (" << c.refused << " refused), " << c.sequences
            << " sequences (" << c.finished << " finished, " << c.cancelled << " cancelled), " << c.steps << " steps ("
            << c.failed_steps << " more failed), " << c.rows << " rows, " << c.preemptions << " preemptions, "
            << c.prefix_hits << " tokens found, " << c.copies << " copies, " << c.refusals << " refusals, " << c.holds
            << " holds, " << c.passed_blocks << " blocks passed, " << c.unpreemptible
            << " preempted to the bound: 0 violations in "
            << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << " s\n";
}
