#include "serve/ops/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace serve {
namespace {

// Fields 3 and on of /proc/self/stat (proc(5)); the second, the program's name, may hold spaces and brackets.
std::vector<std::string> stat_fields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  if (name_end == line.npos) return {};
  std::istringstream rest(line.substr(name_end + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

std::uint64_t boot_seconds() {
  std::ifstream file("/proc/stat");
  std::string word;
  std::uint64_t seconds = 0;
  while (file >> word)
    if (word == "btime" && file >> seconds) return seconds;
  return 0;
}

std::uint64_t count_open_files() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  std::uint64_t count = 0;
  while (const dirent* const entry = readdir(folder)) count += entry->d_name[0] != '.';
  closedir(folder);
  return count - (count > 0);  // the folder's own
}

}  // namespace

ProcessStats process_stats() {
  ProcessStats now;
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (const auto fields = stat_fields(); fields.size() > 21) {
    const auto field = [&](std::size_t number) { return std::strtoull(fields[number - 3].c_str(), nullptr, 10); };
    now.cpu_seconds = static_cast<double>(field(14) + field(15)) / ticks;
    now.threads = field(20);
    now.virtual_bytes = field(23);
    now.resident_bytes = field(24) * page;
    static const std::uint64_t boot = boot_seconds();
    now.start_seconds = static_cast<double>(boot) + static_cast<double>(field(22)) / ticks;
  }
  now.open_files = count_open_files();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) now.most_open_files = limit.rlim_cur;
  return now;
}

}  // namespace serve
