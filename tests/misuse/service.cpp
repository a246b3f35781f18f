// expect: tenon: Service<E> got a type that is no engine; it needs prepare, enqueue, cancel, hold, resume, step
#include <tenon/tenon.h>

#include <cstddef>

#ifdef TENON_MISUSE
struct Mine {
  tenon::RequestId submit(const tenon::Request& request) { return request.input_ids.size(); }
};
#else
using Mine = tenon::AnyEngine;
#endif

std::size_t use() { return sizeof(tenon::Service<Mine>); }
