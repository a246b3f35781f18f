// expect: tenon: Adapter<P> got a type that is no adapter policy; it must be copyable and default constructible
#include <tenon/tenon.h>
#include <tenon/testing/laws.h>

struct Mine {
  static constexpr bool adds_at_runtime = true;
#ifdef TENON_MISUSE  // not const
  void arrange(std::span<const tenon::AdapterSet* const>, tenon::AdapterGroups&) {}
#else
  void arrange(std::span<const tenon::AdapterSet* const>, tenon::AdapterGroups&) const {}
#endif
};

tenon::testing::Violations broken() { return tenon::testing::adapter_laws<Mine>(); }
