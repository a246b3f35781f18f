// Memory that is set aside for the moment when memory runs out. Destructors run then, and some allocate: nlohmann::json
// moves the values of a large object into a vector to destroy them without recursion. A failure there would end the
// process.
#pragma once

namespace serve {

// Sets aside what is not set aside, where there is as much: twice 16 MiB, of which no page is touched. When an
// allocation fails first, one half is given back and the allocation is tried again. At the next failure the other half
// is given back, for the destructors, and std::bad_alloc is thrown. Called at the start, and after each answer. Any
// thread.
void hold_memory_reserve() noexcept;

}  // namespace serve
