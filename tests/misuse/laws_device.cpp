// expect: tenon: Device<P> got a type that is no device; it needs P::name, a P::Memory
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine : tenon::Cpu {
  using Cpu::Cpu;
#ifdef TENON_MISUSE
  int synchronize() { return 0; }
#endif
};

tenon::testing::Violations broken(Mine& device) { return tenon::testing::device_laws(device); }
